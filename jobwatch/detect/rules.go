package detect

import (
	"regexp"
	"slices"
	"sync"
)

// act is what a line that matches a rule does.
type act int

const (
	announces act = iota // prints the server's address
	hints                // says where the server will be
	links                // is part of the job's instructions
	marks                // shows that the lines around are about this app
	skipsPort            // says that a port is in use, and that the server tries another
	ends                 // says that the server stops
	fails                // says that the server could not start
	endsJob              // says that the whole job is over
	misleads             // looks like an announcement and is none
)

// rule is one form of line. It is tried only on lines that contain the needle, so it
// costs nothing on all others.
type rule struct {
	app      string
	act      act
	needle   string // in lower case, of at least two bytes
	names    string // the app that the line names by the needle
	needsApp bool   // the needle is a common word: the line must name an app too, which it is about
	unnamed  bool   // the line must name no other app
	re       string // the pattern that the line matches
	path     string // the page, if the line has none
	desc     string // what the line is, or why it is ignored, for the user
	near     string // matches only within a few lines of this mark
	late     bool   // any program may print the line: it counts only after the app has announced itself
	read     func(*reader, logLine)
	pattern  func() *regexp.Regexp // re, compiled when a line first has the needle: most commands read no log
}

// builtinRules returns the rules of all known apps, which are indexed once.
var builtinRules = sync.OnceValue(func() *ruleSet {
	return newRuleSet(slices.Concat(misleadingRules, endRules, jupyterRules, hintRules, builtinJobRules, workRules, pageRules,
		vncRules, webRules, invitationRules, appNameRules))
})

// ruleSet is a list of rules and an index of their needles.
type ruleSet struct {
	rules  []rule
	groups [][]int       // rules whose needles begin with the same two bytes; the first has none
	starts [1 << 16]byte // by two bytes in any case, their group
}

func newRuleSet(rules []rule) *ruleSet {
	set := &ruleSet{rules: rules, groups: make([][]int, 1)}
	for n, r := range rules {
		rules[n].pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(r.re) })
		group := &set.starts[startOf(r.needle[0], r.needle[1])]
		if *group == 0 {
			*group = byte(len(set.groups))
			set.groups = append(set.groups, nil)
		}
		set.groups[*group] = append(set.groups[*group], n)
	}
	for i := range set.starts {
		set.starts[i] = set.starts[startOf(lower(byte(i>>8)), lower(byte(i)))]
	}
	return set
}

func startOf(first, second byte) int { return int(first)<<8 | int(second) }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// find returns the rules to try on a line, in order, and the app it names, or "". Almost all lines of a
// long log have no needle, and no regular expression is tried on them.
func (set *ruleSet) find(line []byte) (found []int, app string) {
	for i := range max(len(line)-1, 0) {
		group := set.starts[startOf(line[i], line[i+1])]
		if group == 0 {
			continue
		}
		for _, n := range set.groups[group] {
			if beginsWith(line[i:], set.rules[n].needle) {
				found = append(found, n)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if i := slices.IndexFunc(found, func(n int) bool { return set.rules[n].names != "" }); i >= 0 {
		return found, set.rules[found[i]].names
	}
	return slices.DeleteFunc(found, func(n int) bool { return set.rules[n].needsApp }), ""
}

// beginsWith reports whether a line begins with a word in lower case, in any case.
func beginsWith(line []byte, word string) bool {
	if len(line) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(line[i]) != word[i] {
			return false
		}
	}
	return true
}

// hostPattern matches a host name or an IPv4 address, wherePattern a host and a port,
// bindPattern the same or an IPv6 address and a port, urlPattern the start of a URL, the rest of which findURLs reads.
const (
	hostPattern  = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	wherePattern = `(?P<host>` + hostPattern + `):(?P<port>\d{2,5})\b`
	bindPattern  = `(?P<host>\[[0-9A-Fa-f:.]+\]|` + hostPattern + `):(?P<port>\d{2,5})\b`
	urlPattern   = `(?P<url>https?://\S+)`
)
