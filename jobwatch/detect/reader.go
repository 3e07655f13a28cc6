package detect

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"tunctl/internal/api"
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
	port, _ := group("port")
	a.port = parsePort(port)
	if token, at := group("token"); at >= 0 {
		a.setToken(token)
	}
	return a
}

// reader applies rules to the lines of one stream. It remembers what the last lines
// were about.
type reader struct {
	ev    *evidence
	marks map[string]int // by name, the last line that explains those after it
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
	if u.names != "" {
		r.noteApp(u.names, l)
		return false
	}
	if u.read != nil {
		u.read(r, l)
		return false
	}
	if u.near != "" && !r.marked(u.near, l, nearby) || u.late && !r.ev.announced(u.app) || u.unnamed && l.app != "" && l.app != u.app {
		return false
	}
	addr, ok := l.match(u.pattern())
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
		r.marks[u.app] = l.at.line
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

// marked reports whether one of the last n lines has the mark.
func (r *reader) marked(name string, l logLine, n int) bool {
	at, ok := r.marks[name]
	return ok && l.at.line-at <= n
}

// maxLine bounds what is kept of an unfinished line. Progress bars and printed arrays
// can have megabytes without a newline; a longer line is read in pieces.
const maxLine = 16 << 10

// lineSplitter splits a byte stream into lines, whatever its chunks. A carriage return
// ends a line too: progress bars overwrite themselves.
type lineSplitter struct {
	buf  []byte // the start of an unfinished line
	line int    // newlines seen
}

// feed calls read with each whole line in p, without its terminator. The bytes
// are only valid during the call.
func (s *lineSplitter) feed(p []byte, read func(line int, text []byte)) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		for {
			i := bytes.IndexByte(line, '\r')
			if i < 0 {
				break
			}
			s.add(line[:i], true, read)
			line = line[i+1:]
		}
		s.add(line, ended, read)
		if ended {
			s.line++
		}
		p = rest
	}
}

// add reads a line that has ended, with what was kept of it, and keeps the start of one that has
// not. It reads a piece of a line that gets too long.
func (s *lineSplitter) add(p []byte, ended bool, read func(int, []byte)) {
	if ended && len(s.buf) == 0 && len(p) <= maxLine {
		if len(p) > 0 {
			read(s.line+1, p)
		}
		return
	}
	for len(p) > 0 {
		n := min(len(p), maxLine-len(s.buf))
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		if len(s.buf) == maxLine {
			end := breakPoint(s.buf)
			read(s.line+1, s.buf[:end])
			s.buf = append(s.buf[:0], s.buf[end:]...)
		}
	}
	if ended && len(s.buf) > 0 {
		read(s.line+1, s.buf)
		s.buf = s.buf[:0]
	}
}

// breakPoint is where a line that is too long is split: at the last blank near its end,
// so that no URL is split, or else at its end.
func breakPoint(line []byte) int {
	const near = 2 << 10
	if i := bytes.LastIndexAny(line[len(line)-near:], " \t"); i >= 0 {
		return len(line) - near + i + 1
	}
	return len(line)
}

// cleanLine drops what a terminal does not show: colours, cursor moves, titles, link
// targets and NUL bytes.
func cleanLine(p []byte) string {
	if bytes.IndexByte(p, 0x1b) < 0 && bytes.IndexByte(p, 0) < 0 {
		return string(p)
	}
	return api.Sanitize(string(p))
}

// jupyterTokenLen is the length of a token that Jupyter generates: 24 bytes in hex.
const jupyterTokenLen = 48

// wrapWidth is the width at which a terminal wrapped the lines: then the longest lines
// all have the same length.
type wrapWidth struct {
	width int // the longest line so far
	full  int // how many were that long
}

// observe adds the length of one more line.
func (w *wrapWidth) observe(n int) {
	switch {
	case n > w.width:
		w.width, w.full = n, 1
	case n == w.width:
		w.full++
	}
}

// join returns the line that was split into first and next, if a URL at the end of
// first continues in next.
func (w *wrapWidth) join(first, next string) (string, bool) {
	if endsInAddress(first) {
		return strings.TrimRight(first, " \t\\") + " " + strings.TrimSpace(next), true
	}
	open, word := lastURL(first), strings.TrimSpace(next)
	if open == "" || word == "" || strings.HasPrefix(word, "http") {
		return "", false
	}
	n := len(first)
	wrapped := n == w.width && n >= 60 && (w.full > 1 || n == 80)
	switch {
	case strings.HasSuffix(open, "?") || strings.HasSuffix(open, "token="):
		if !isURLWord(word) || len(word) < 8 {
			return "", false
		}
	case isHex(word) && len(tokenOf(open))+len(word) == jupyterTokenLen && isHex(tokenOf(open)):
	case wrapped && (!isHex(tokenOf(open)) || len(tokenOf(open)) != jupyterTokenLen):
		if word, _, _ = strings.Cut(word, " "); next[0] == ' ' || !isURLWord(word) {
			return "", false
		}
	default:
		return "", false
	}
	return first + word, true
}

// lastURL is the URL that a line ends with, or "".
func lastURL(line string) string {
	i := strings.LastIndex(line, "http")
	if i < 0 || strings.ContainsAny(line[i:], " \t") {
		return ""
	}
	return line[i:]
}

// endsInAddress reports whether a line ends within the parentheses of
// "http://(n003 or 127.0.0.1):8888/", or before an address that follows on a line of
// its own.
func endsInAddress(line string) bool {
	line = strings.TrimRight(line, " \t\\")
	if strings.HasSuffix(line, "view the dashboard at") {
		return true
	}
	i := strings.LastIndex(line, "://(")
	return i >= 0 && !strings.Contains(line[i:], ")")
}

// mayContinue reports whether the next line can be a part of this one.
func mayContinue(line string) bool { return lastURL(line) != "" || endsInAddress(line) }

// tokenOf is the token at the end of a URL.
func tokenOf(text string) string {
	_, token, _ := strings.Cut(text, "token=")
	return token
}

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}

// isURLWord reports whether a word can be the rest of a URL.
func isURLWord(s string) bool { return s != "" && isAlphanumericOr(s, "/?=&_-.:%") }

// isAlphanumericOr reports whether s has only ASCII letters, digits and other characters.
func isAlphanumericOr(s, other string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (c < '0' || c > '9') && strings.IndexByte(other, c) < 0 {
			return false
		}
	}
	return true
}
