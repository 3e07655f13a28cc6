// Package detect finds the address of a server in the log of a job: log lines go in,
// an [api.Endpoint] comes out. It has the rules for each app that prints its address,
// and decides which of several addresses to believe.
//
// It reads bytes that a caller gives it and connects to nothing. It does not know
// where a log comes from, which host or scheduler runs the job, and how to reach what
// it finds.
package detect

import (
	"regexp"
	"slices"
)

// Detector reads a job's log as it grows and says where the job serves. It takes
// bytes in any chunks and remembers a bounded amount of them. It is not safe for
// concurrent use.
type Detector struct {
	custom  []App
	book    *ruleBook
	ev      *evidence
	streams []*Stream
	found   *Finding // nil when the evidence changed since
}

// New returns a detector that looks for the app called only, or for any
// app if only is empty. A person's own apps are looked for first.
func New(only string, custom ...App) *Detector {
	d := &Detector{book: builtinRules(), ev: newEvidence(only)}
	for _, app := range custom {
		if d.ev.wants(app.Name) {
			d.custom = append(d.custom, app)
		}
	}
	return d
}

// Stream returns the part of the detector that reads the file called name. A job
// that writes its hints to one file and its errors to another gives evidence in
// both; each file has its own lines, all are judged together.
func (d *Detector) Stream(name string) *Stream {
	for _, s := range d.streams {
		if s.name == name {
			return s
		}
	}
	s := &Stream{d: d, name: name, reading: newReading(d.ev)}
	d.streams = append(d.streams, s)
	return s
}

// Write takes the next bytes of the log. It never fails.
func (d *Detector) Write(p []byte) (int, error) { return d.Stream("").Write(p) }

// Flush says that the log ends here: a last line without a newline is taken as it
// is. It is for who reads a log once; one that grows may be cut off anywhere.
func (d *Detector) Flush() {
	for _, s := range d.streams {
		s.flush()
	}
}

// Finding is the best that can be said so far.
func (d *Detector) Finding() Finding {
	if d.found == nil {
		f := d.ev.judge()
		d.found = &f
	}
	return *d.found
}

// Stream is one of a job's files.
type Stream struct {
	d       *Detector
	name    string
	split   lineSplitter
	gauge   wrapGauge
	reading *reading
	open    string // the last line, if a URL at its end may go on in the next
	openAt  int
}

// Write takes the next bytes of the file. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	s.split.feed(p, s.line)
	return len(p), nil
}

// flush ends a last line without a newline.
func (s *Stream) flush() {
	if len(s.split.buf) > 0 {
		s.split.feed([]byte("\n"), s.line)
	}
}

// Reset forgets what this file said: it was truncated or replaced.
func (s *Stream) Reset() {
	s.d.ev.forget(s.name)
	s.d.found = nil
	*s = Stream{d: s.d, name: s.name, reading: newReading(s.d.ev)}
}

// line reads one line.
func (s *Stream) line(n int, raw []byte) {
	s.gauge.see(len(raw))
	rules, app := s.d.book.find(raw)
	if rules.empty() && s.open == "" && len(s.d.custom) == 0 {
		return
	}
	text := cleanLine(raw)
	if joined, ok := s.gauge.rejoin(s.open, text); s.open != "" && ok {
		s.d.ev.retract(spot{s.name, s.openAt})
		n, text = s.openAt, joined
		rules, app = s.d.book.find([]byte(joined))
	}
	s.open, s.openAt = "", n
	if len(text) < maxLine/2 && mayGoOn(text) {
		s.open = text
	}
	s.interpret(logLine{at: spot{s.name, n}, text: text, app: app}, rules)
}

// interpret tries the rules on a line.
func (s *Stream) interpret(l logLine, rules bitset) {
	for _, app := range s.d.custom {
		for _, re := range app.Patterns {
			if s.reading.custom(app.Name, re, l) {
				s.d.found = nil
			}
		}
	}
	for i := range rules.all {
		s.d.found = nil
		if s.reading.apply(&s.d.book.rules[i], l) {
			return
		}
	}
}

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
