package detect

import (
	"bytes"
	"strings"

	"tunctl/internal/api"
)

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
