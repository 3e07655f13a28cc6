package detect

import (
	"math/bits"
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
	needle   string // in lower case
	needsApp bool   // the needle is a common word: the line must name an app too, which it is about
	unnamed  bool   // the line must name no other app
	re       func() *regexp.Regexp
	path     string // the page, if the line has none
	desc     string // what the line is, or why it is ignored, for the user
	near     string // matches only within a few lines of this mark
	late     bool   // any program may print the line: it counts only after the app has announced itself
	read     func(*reader, logLine)
}

// lazyPattern compiles a pattern when a line first contains its needle: most commands read
// no log, and all patterns together would take a good part of a command's time.
func lazyPattern(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// builtinRules returns the rules of all known apps. They are built once: the filter
// takes half a megabyte.
var builtinRules = sync.OnceValue(func() *ruleSet {
	return newRuleSet(slices.Concat(misleadingRules, endRules, jupyterRules, hintRules, builtinJobRules, workRules, pageRules, modelRules, dashboardRules,
		vncRules, webRules, invitationRules, appNameRules()))
})

// appNameRules notice which app the log is about, so that a hint such as
// `ssh -L 8787:node:8787` is known to be about RStudio.
func appNameRules() []rule {
	rules := make([]rule, 0, len(appWords))
	for _, w := range appWords {
		rules = append(rules, rule{needle: w.word, read: func(r *reader, l logLine) { r.noteApp(w.app, l) }})
	}
	return rules
}

// ruleSet is a list of rules and the filter of their needles.
type ruleSet struct {
	rules      []rule
	filter     *lineFilter
	byNeedle   []bitset // per needle, the rules to try
	needsApp   bitset   // the rules that need the name of an app
	sufficient bitset   // the needles of the other rules: without one of them, no rule applies
	appNeedles []int    // per word of appWords, its needle's number
}

func newRuleSet(rules []rule) *ruleSet {
	set := &ruleSet{rules: rules}
	var words []string
	for n, r := range rules {
		i := slices.Index(words, r.needle)
		if i < 0 {
			i = len(words)
			words = append(words, r.needle)
			set.byNeedle = append(set.byNeedle, bitset{})
		}
		set.byNeedle[i].add(n)
		if r.needsApp {
			set.needsApp.add(n)
		} else {
			set.sufficient.add(i)
		}
	}
	for _, w := range appWords {
		set.appNeedles = append(set.appNeedles, slices.Index(words, w.word))
	}
	set.filter = newLineFilter(words)
	return set
}

// find returns the rules to try on a line, in order, and the app it names, or "".
func (set *ruleSet) find(line []byte) (rules bitset, app string) {
	hits := set.filter.scan(line)
	if !hits.meets(set.sufficient) {
		return rules, ""
	}
	for i := range hits.all {
		rules.join(set.byNeedle[i])
	}
	for i, w := range appWords {
		if hits.has(set.appNeedles[i]) {
			return rules, w.app
		}
	}
	for i := range set.needsApp.all {
		rules.del(i)
	}
	return rules, ""
}

// hostPattern matches a host name or an IPv4 address, wherePattern a host and a port,
// bindPattern the same or an IPv6 address and a port, urlPattern the start of a URL, the rest of which findURLs reads.
const (
	hostPattern  = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	wherePattern = `(?P<host>` + hostPattern + `):(?P<port>\d{2,5})\b`
	bindPattern  = `(?P<host>\[[0-9A-Fa-f:.]+\]|` + hostPattern + `):(?P<port>\d{2,5})\b`
	urlPattern   = `(?P<url>https?://\S+)`
)

// bitset is a set of numbers below 192, of words or of rules.
type bitset [3]uint64

func (b *bitset) add(i int)     { b[i>>6] |= 1 << (i & 63) }
func (b *bitset) del(i int)     { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitset) empty() bool    { return b == bitset{} }

// meets reports whether the sets have a number in common.
func (b *bitset) meets(c bitset) bool {
	return b[0]&c[0]|b[1]&c[1]|b[2]&c[2] != 0
}

func (b *bitset) join(c bitset) {
	for i, w := range c {
		b[i] |= w
	}
}

// all yields the numbers in the set, in order.
func (b bitset) all(yield func(int) bool) {
	for i, w := range b {
		for ; w != 0; w &= w - 1 {
			if !yield(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// lineFilter finds which of a set of words a line contains, in one pass and in any
// case: it is an Aho-Corasick automaton. Almost all lines of a long log contain none,
// and no regular expression is tried on them.
type lineFilter struct {
	next  [][256]uint16 // per state and byte, the next state; with finds where a word ends
	found []bitset      // per state
}

// newLineFilter builds the automaton of words, which are in lower case.
func newLineFilter(words []string) *lineFilter {
	f := &lineFilter{next: make([][256]uint16, 1), found: make([]bitset, 1)}
	for i, w := range words {
		f.insert(i, w)
	}
	f.link()
	for s := range f.next {
		for c, t := range f.next[s] {
			if !f.found[t].empty() {
				f.next[s][c] = t | finds
			}
		}
		copy(f.next[s]['A':'Z'+1], f.next[s]['a':'z'+1])
	}
	return f
}

// insert adds a word to the trie.
func (f *lineFilter) insert(i int, word string) {
	s := uint16(0)
	for _, c := range []byte(word) {
		if f.next[s][c] == 0 {
			f.next[s][c] = uint16(len(f.next))
			f.next = append(f.next, [256]uint16{})
			f.found = append(f.found, bitset{})
		}
		s = f.next[s][c]
	}
	f.found[s].add(i)
}

// link turns the trie into an automaton: where no word continues, the next state is
// that of the longest suffix that begins a word.
func (f *lineFilter) link() {
	fail := make([]uint16, len(f.next))
	var queue []uint16
	for _, s := range f.next[0] {
		if s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		f.found[s].join(f.found[fail[s]])
		for c, t := range f.next[s] {
			if t == 0 {
				f.next[s][c] = f.next[fail[s]][c]
				continue
			}
			fail[t] = f.next[fail[s]][c]
			queue = append(queue, t)
		}
	}
}

// finds marks a state in which a word ends, so that scan reads only one table for most
// bytes.
const finds = 1 << 15

// scan returns the words that line contains.
func (f *lineFilter) scan(line []byte) bitset {
	var hits bitset
	s := uint16(0)
	next := f.next
	for _, c := range line {
		s = next[s&^finds][c]
		if s&finds != 0 {
			hits.join(f.found[s&^finds])
		}
	}
	return hits
}
