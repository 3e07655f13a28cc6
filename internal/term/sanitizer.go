package term

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"unicode"
)

// Sanitizer writes text of others, such as a job's log, to a terminal. It removes the
// control sequences (ECMA-48) that move the cursor, set the title or the clipboard, or
// make the terminal answer as if the user had typed. It keeps colours, tabs and the
// carriage returns of progress bars. A sequence may be split over several writes.
type Sanitizer struct {
	out      io.Writer
	rest     []byte // a sequence whose end is yet to come
	coloured bool   // the terminal was left in a colour
}

// NewSanitizer returns a Sanitizer that writes to out.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

const (
	// A C1 control such as \x{9b} is ESC and a letter in one.
	controlSequence = `(?:\x1b\[|\x{9b})[0-?]*[ -/]*`
	// A string never ends behind a line end: the rest of the log is no part of it.
	controlString = `(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\n]*`
	escape        = `\x1b[ -/]*`

	longestColour = 64
)

var (
	control    = regexp.MustCompile(`^(?:` + controlSequence + `[@-~]?|` + controlString + `(?:\x07|\x1b\\)?|` + escape + `[0-~]?|.)`)
	unfinished = regexp.MustCompile(`^(?:` + controlSequence + `|` + controlString + `\x1b?|` + escape + `)$`)
	colour     = regexp.MustCompile(`^(?:\x1b\[|\x{9b})([0-;]*)m$`)
)

// isControl reports whether a character is one, or begins a sequence.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	text := slices.Concat(s.rest, p)
	var kept []byte
	for i := bytes.IndexFunc(text, isControl); i >= 0; i = bytes.IndexFunc(text, isControl) {
		kept, text = append(kept, text[:i]...), text[i:]
		if unfinished.Match(text) {
			break
		}
		end := len(control.Find(text))
		kept, text = append(kept, s.keepColour(text[:end])...), text[end:]
	}
	if !unfinished.Match(text) {
		whole := len(bytes.TrimSuffix(text, []byte{0xc2})) // the first byte of a C1 control, or of a letter
		kept, text = append(kept, text[:whole]...), text[whole:]
	}
	s.rest = bytes.Clone(text)
	if n := len(s.rest) - 1; n > longestColour { // none that is kept is so long
		s.rest = append(s.rest[:longestColour], s.rest[n])
	}
	if _, err := s.out.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}

// keepColour is a control sequence if it is a colour.
func (s *Sanitizer) keepColour(sequence []byte) []byte {
	found := colour.FindSubmatch(sequence)
	if found == nil || len(sequence) > longestColour {
		return nil
	}
	s.coloured = len(found[1]) > 0 && string(found[1]) != "0"
	return append(append([]byte("\x1b["), found[1]...), 'm')
}

// ResetColour leaves the terminal in its own colour.
func (s *Sanitizer) ResetColour() {
	if s.coloured {
		_, _ = io.WriteString(s.out, "\x1b[0m")
	}
}
