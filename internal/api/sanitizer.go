package api

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sanitizer is Sanitize for text that comes in pieces, such as a job's log. It keeps colours, and
// the carriage returns of progress bars. A sequence or a letter may be split over several writes.
type Sanitizer struct {
	out      io.Writer
	rest     string // what may continue in the next write
	coloured bool   // the terminal was left in a colour
}

// NewSanitizer returns a Sanitizer that writes to out.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

// longestColour bounds the sequences that are kept.
const longestColour = 64

var (
	unfinished = regexp.MustCompile(`(?:(?:` + stringStart + `)` + stringText + `\x1b?|(?:` + sequenceStart + `)[ -?]*|\x1b[ -/]*)$`)
	colour     = regexp.MustCompile(`^(?:\x1b\[|\x{9b})([0-;]*)m$`)
)

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	text := s.rest + string(p)
	end := len(text)
	if at := unfinished.FindStringIndex(text); at != nil {
		end = at[0]
	}
	end -= len(partOfRune(text[:end]))
	text, s.rest = text[:end], text[end:]
	if n := len(s.rest) - 1; n > longestColour { // none that is kept is so long
		s.rest = s.rest[:longestColour] + s.rest[n:]
	}
	text = escapes.ReplaceAllStringFunc(strings.ToValidUTF8(text, "?"), s.keepColour)
	if _, err := io.WriteString(s.out, visible(text, "\n\t\r\x1b")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// partOfRune is the beginning of a letter at the end of a text.
func partOfRune(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			return tail
		}
	}
	return ""
}

// keepColour is a control sequence if it is a colour.
func (s *Sanitizer) keepColour(sequence string) string {
	found := colour.FindStringSubmatch(sequence)
	if found == nil || len(sequence) > longestColour {
		return ""
	}
	s.coloured = found[1] != "" && found[1] != "0"
	return "\x1b[" + found[1] + "m"
}

// ResetColour leaves the terminal in its own colour.
func (s *Sanitizer) ResetColour() {
	if s.coloured {
		_, _ = io.WriteString(s.out, "\x1b[0m")
	}
}
