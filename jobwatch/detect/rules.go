package detect

import (
	"regexp"
	"slices"
	"sync"
)

// act is what a rule's match means.
type act int

const (
	announces act = iota // the server says where it is
	marks                // the words below or above are about this app
	moves                // the port asked for is taken, another is tried
	ends                 // the server says that it stops
	fails                // the server could not start
	endsJob              // the whole job is over
	passes               // looks like an announcement and is none
)

// rule is one form of line. A line is tried only if it holds the needle, so each
// rule costs nothing on the lines it has nothing to say about.
type rule struct {
	app    string
	act    act
	needle string // in lower case
	named  bool   // tried only if the line names an app too: the needle is a common word
	re     *regexp.Regexp
	path   string // the page, where the line does not tell
	said   string // what the line is, or why it is passed over, for a person
	near   string // matches only within a few lines of this mark
	read   func(*reading, logLine)
}

// ruleBook is the built-in rules and the filter of their needles.
type ruleBook struct {
	rules  []rule
	filter *lineFilter
	tries  []bitset // per needle, the rules to try
	named  bitset   // the rules that need the name of an app
	strong bitset   // the needles of the others: without one of them, no rule applies
	word   []int    // per word of appWords, its needle's number
}

// find returns the rules to try on a line, in order, and the app it names, or "".
func (b *ruleBook) find(line []byte) (rules bitset, app string) {
	hits := b.filter.scan(line)
	if !hits.meets(b.strong) {
		return rules, ""
	}
	for i := range hits.all {
		rules.join(b.tries[i])
	}
	for i, w := range appWords {
		if hits.has(b.word[i]) {
			return rules, w.app
		}
	}
	for i := range b.named.all {
		rules.del(i)
	}
	return rules, ""
}

// builtinRules returns all we know, built once: the filter takes half a megabyte.
var builtinRules = sync.OnceValue(func() *ruleBook {
	return newRuleBook(slices.Concat(passRules, endRules, jupyterRules, hintRules, workRules, pageRules, dashboardRules,
		vncRules, webRules, mentionRules()))
})

func newRuleBook(rules []rule) *ruleBook {
	b := &ruleBook{rules: rules}
	var words []string
	for n, r := range rules {
		i := slices.Index(words, r.needle)
		if i < 0 {
			i = len(words)
			words = append(words, r.needle)
			b.tries = append(b.tries, bitset{})
		}
		b.tries[i].add(n)
		if r.named {
			b.named.add(n)
		} else {
			b.strong.add(i)
		}
	}
	for _, w := range appWords {
		b.word = append(b.word, slices.Index(words, w.word))
	}
	b.filter = newLineFilter(words)
	return b
}

// mentionRules notice which app the log speaks of, so that a hint such as
// `ssh -L 8787:node:8787` can be told to be about RStudio.
func mentionRules() []rule {
	rules := make([]rule, 0, len(appWords))
	for _, w := range appWords {
		rules = append(rules, rule{needle: w.word, read: func(r *reading, l logLine) { r.mention(w.app, l) }})
	}
	return rules
}

// hostPattern matches a host name or an IPv4 address; wherePattern a host and a
// port; urlPattern the start of a URL, whose rest is read by findURLs.
const (
	hostPattern  = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	wherePattern = `(?P<host>` + hostPattern + `):(?P<port>\d{2,5})\b`
	urlPattern   = `(?P<url>https?://\S+)`
)

// logLine is a line as a person would see it.
type logLine struct {
	at   spot
	text string
	app  string // the app it speaks of, or ""
}

// reading is what the last lines of one stream were about.
type reading struct {
	ev    *evidence
	marks map[string]int // where a mark was last seen
	app   string         // the app last spoken of …
	appAt int            // … and where

	daskHost  string   // where Dask's scheduler is, for a dashboard without a host
	webSocket sighting // where websockify listens, which may or may not serve a page
}

func newReading(ev *evidence) *reading {
	return &reading{ev: ev, marks: map[string]int{}}
}

// nearby is how many lines belong together: an instruction and its heading, a
// banner and its URLs.
const nearby = 15

// mention notes that a line speaks of an app, also for the hints just above it.
func (r *reading) mention(app string, l logLine) {
	r.app, r.appAt = app, l.at.line
	for i := range r.ev.hints {
		if h := &r.ev.hints[i]; h.app == "" && h.at.stream == l.at.stream && l.at.line-h.at.line <= nearby {
			h.app = app
		}
	}
	if h := r.ev.here; h != nil && h.app == "" && h.at.stream == l.at.stream && l.at.line-h.at.line <= nearby {
		h.app = app
	}
}

// about is the app that the lines around l speak of, or "".
func (r *reading) about(l logLine) string {
	if l.app != "" {
		return l.app
	}
	if r.app != "" && l.at.line-r.appAt <= nearby {
		return r.app
	}
	return ""
}

// mark notes where something was seen that explains the lines after it.
func (r *reading) mark(name string, l logLine) { r.marks[name] = l.at.line }

// marked reports whether a mark was seen within n lines.
func (r *reading) marked(name string, l logLine, n int) bool {
	at, ok := r.marks[name]
	return ok && l.at.line-at <= n
}

// apply tries one rule and reports whether the line is done with.
func (r *reading) apply(u *rule, l logLine) bool {
	if u.read != nil {
		u.read(r, l)
		return false
	}
	if u.near != "" && !r.marked(u.near, l, nearby) {
		return false
	}
	m := u.re.FindStringSubmatchIndex(l.text)
	if m == nil {
		return false
	}
	s := sighting{at: l.at, app: u.app, said: u.said, to: matchedTarget(u.re, l.text, m)}
	switch u.act {
	case announces:
		if s.to.path == "" || s.to.path == "/" {
			s.to.path = u.path
		}
		if s.to.port != 0 || s.to.socket != "" {
			r.ev.announce(s)
		}
	case marks:
		r.mark(u.app, l)
		return false
	case moves:
		r.ev.take(s)
	case ends:
		r.ev.end(s)
	case fails:
		r.ev.fail(s)
	case endsJob:
		r.ev.endJob(s)
	case passes:
		r.ev.notes.pass(s, u.said)
	}
	return true
}

// custom tries a pattern of a person's own and reports whether it fits.
func (r *reading) custom(app string, re *regexp.Regexp, l logLine) bool {
	m := re.FindStringSubmatchIndex(l.text)
	if m == nil {
		return false
	}
	to := matchedTarget(re, l.text, m)
	if to.port != 0 || to.host != "" {
		r.ev.announce(sighting{at: l.at, app: app, to: to, said: "a line that matches the app's own pattern"})
	}
	return true
}

// matchedTarget reads the named groups of a match: a url, or its parts.
func matchedTarget(re *regexp.Regexp, text string, m []int) target {
	group := func(name string) (string, int) {
		i := slices.Index(re.SubexpNames(), name)
		if i < 0 || m[2*i] < 0 {
			return "", -1
		}
		return text[m[2*i]:m[2*i+1]], m[2*i]
	}
	if _, at := group("url"); at >= 0 {
		if urls := findURLs(text[at:]); len(urls) > 0 {
			return urls[0].target
		}
	}
	var t target
	t.scheme, _ = group("scheme")
	t.host, _ = group("host")
	t.path, _ = group("path")
	t.socket, _ = group("socket")
	if port, _ := group("port"); port != "" {
		t.port, _ = parsePort(port)
	}
	if token, at := group("token"); at >= 0 {
		t.setToken(token)
	}
	return t
}
