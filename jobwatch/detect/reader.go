package detect

import (
	"regexp"
	"slices"
)

// logLine is a line as a terminal shows it.
type logLine struct {
	at   position
	text string
	app  string // the app it names, or ""
}

// match returns the address in the first match of re.
func (l logLine) match(re *regexp.Regexp) (address, bool) {
	m := re.FindStringSubmatchIndex(l.text)
	if m == nil {
		return address{}, false
	}
	return matchedAddress(re, l.text, m), true
}

// matchedAddress reads the named groups of a match: a url, or its parts.
func matchedAddress(re *regexp.Regexp, text string, m []int) address {
	group := func(name string) (string, int) {
		i := slices.Index(re.SubexpNames(), name)
		if i < 0 || m[2*i] < 0 {
			return "", -1
		}
		return text[m[2*i]:m[2*i+1]], m[2*i]
	}
	if _, at := group("url"); at >= 0 {
		if urls := findURLs(text[at:]); len(urls) > 0 {
			return urls[0].address
		}
	}
	var a address
	a.scheme, _ = group("scheme")
	a.host, _ = group("host")
	a.host = unwrapHost(a.host)
	a.path, _ = group("path")
	a.socket, _ = group("socket")
	if port, _ := group("port"); port != "" {
		a.port, _ = parsePort(port)
	}
	if token, at := group("token"); at >= 0 {
		a.setToken(token)
	}
	return a
}

// reader applies rules to the lines of one stream. It remembers what the last lines
// were about.
type reader struct {
	ev    *evidence
	marks map[string]int // the last line of each mark
	app   string         // the app that was named last, and in which line
	appAt int

	loginUser   string // for RStudio's login page, and in which line
	loginUserAt int

	daskHost   string    // the host of Dask's scheduler, for a dashboard without one
	websockify statement // where websockify listens; it may serve a page or not
}

func newReader(ev *evidence) *reader {
	return &reader{ev: ev, marks: map[string]int{}}
}

// nearby is how many lines belong together: an instruction and its heading, a
// banner and its URLs.
const nearby = 15

// apply tries one rule. It reports whether the line needs no further rules.
func (r *reader) apply(u *rule, l logLine) bool {
	if u.read != nil {
		u.read(r, l)
		return false
	}
	if u.near != "" && !r.marked(u.near, l, nearby) || u.late && !r.ev.announced(u.app) || u.unnamed && l.app != "" && l.app != u.app {
		return false
	}
	addr, ok := l.match(u.re())
	if !ok {
		return false
	}
	s := statement{at: l.at, app: u.app, desc: u.desc, addr: addr}
	if u.needsApp {
		s.app = l.app
	}
	switch u.act {
	case announces:
		if s.addr.path == "" || s.addr.path == "/" {
			s.addr.path = u.path
		}
		if s.addr.port != 0 || s.addr.socket != "" {
			r.ev.addOwn(s)
		}
	case hints:
		if s.app = r.appNear(l); s.addr.kind() == namedHost {
			r.ev.addHint(s)
		}
		return false
	case links:
		r.ev.addLink(s)
		return false
	case marks:
		r.mark(u.app, l)
		return false
	case skipsPort:
		r.ev.addPortInUse(s)
	case ends:
		r.ev.addEnd(s)
		return false
	case fails:
		r.ev.addFailure(s)
	case endsJob:
		r.ev.addJobEnd(s)
	case misleads:
		r.ev.notes.ignored(s, u.desc)
	}
	return true
}

// applyCustom tries a pattern from the config. It reports whether the pattern matches.
func (r *reader) applyCustom(app string, re *regexp.Regexp, l logLine) bool {
	addr, ok := l.match(re)
	if addr.port != 0 || addr.host != "" {
		r.ev.addOwn(statement{at: l.at, app: app, addr: addr, desc: "a line that matches the app's own pattern"})
	}
	return ok
}

// noteApp notes that a line names an app, also for the hints just above it.
func (r *reader) noteApp(app string, l logLine) {
	r.app, r.appAt = app, l.at.line
	note := func(s *statement) {
		if s.app == "" && s.at.stream == l.at.stream && l.at.line-s.at.line <= nearby {
			s.app = app
		}
	}
	for i := range r.ev.hints {
		note(&r.ev.hints[i])
	}
	if r.ev.reverse != nil {
		note(r.ev.reverse)
	}
}

// appNear is the app that l or the lines above name, or "".
func (r *reader) appNear(l logLine) string {
	if l.app == "" && l.at.line-r.appAt <= nearby {
		return r.app
	}
	return l.app
}

// mark notes a line that explains those after it.
func (r *reader) mark(name string, l logLine) { r.marks[name] = l.at.line }

// marked reports whether one of the last n lines has the mark.
func (r *reader) marked(name string, l logLine, n int) bool {
	at, ok := r.marks[name]
	return ok && l.at.line-at <= n
}
