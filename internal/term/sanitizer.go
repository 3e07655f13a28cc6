package term

import "io"

// Sanitizer writes text of others, such as a job's log, to a terminal. It removes the
// control sequences (ECMA-48) that move the cursor, set the title or the clipboard, or
// make the terminal answer as if a person had typed. It keeps colours, tabs and the
// carriage returns of progress bars. A sequence may be split over several writes.
type Sanitizer struct {
	out      io.Writer
	state    sanitizerState
	colour   []byte // the parameters so far of a sequence that may be a colour
	coloured bool   // the terminal was left in a colour
}

// NewSanitizer returns a Sanitizer that writes to out.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

type sanitizerState int

const (
	inText    sanitizerState = iota
	afterC2                  // the first byte of a C1 control in UTF-8, or of a letter
	afterEsc                 // ESC
	inControl                // ESC [
	inString                 // ESC ] and its like, up to BEL or ESC \
	inBreak                  // ESC within such a string
)

const (
	esc = 0x1b
	bel = 0x07
)

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	kept := make([]byte, 0, len(p))
	for _, b := range p {
		kept = s.next(kept, b)
	}
	if _, err := s.out.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ResetColour leaves the terminal in its own colour.
func (s *Sanitizer) ResetColour() {
	if s.coloured {
		_, _ = io.WriteString(s.out, "\x1b[0m")
	}
}

// next appends to kept what a byte adds to the text.
func (s *Sanitizer) next(kept []byte, b byte) []byte {
	switch state := s.state; state {
	case afterC2:
		s.state = inText
		if b >= 0x80 && b <= 0x9f {
			s.introduce(b - 0x40) // a C1 control is ESC and a letter in one
			return kept
		}
		return s.next(append(kept, 0xc2), b)
	case afterEsc, inBreak:
		s.state = inText
		switch {
		case b == '\\' && state == inBreak:
		case b < ' ':
			return s.next(kept, b)
		case b <= '/': // its end is yet to come
			s.state = afterEsc
		default:
			s.introduce(b)
		}
		return kept
	case inControl:
		return s.control(kept, b)
	case inString:
		switch b {
		case bel:
			s.state = inText
		case esc:
			s.state = inBreak
		case '\n': // it never ended: the rest of the log is no part of it
			s.state = inText
			return append(kept, b)
		}
		return kept
	}
	return s.text(kept, b)
}

func (s *Sanitizer) text(kept []byte, b byte) []byte {
	switch {
	case b == esc:
		s.state = afterEsc
	case b == 0xc2:
		s.state = afterC2
	case b == '\n', b == '\t', b == '\r', b >= ' ' && b != 0x7f:
		return append(kept, b)
	}
	return kept
}

// introduce enters the sequence that ESC and a letter begin.
func (s *Sanitizer) introduce(b byte) {
	switch b {
	case '[':
		s.state, s.colour = inControl, s.colour[:0]
	case ']', 'P', 'X', '^', '_':
		s.state = inString
	}
}

// control reads a control sequence, and keeps it if it is a colour.
func (s *Sanitizer) control(kept []byte, b byte) []byte {
	const longest = 64
	switch {
	case b >= '0' && b <= ';':
		if len(s.colour) < longest {
			s.colour = append(s.colour, b)
		}
	case b >= ' ' && b <= '?': // no colour has these
		s.colour = append(s.colour[:0], '?')
	case b == 'm':
		s.state = inText
		if len(s.colour) > 0 && s.colour[0] == '?' || len(s.colour) == longest {
			return kept
		}
		s.coloured = len(s.colour) > 0 && string(s.colour) != "0"
		return append(append(append(kept, esc, '['), s.colour...), 'm')
	case b >= '@' && b <= '~':
		s.state = inText
	default:
		s.state = inText
		return s.text(kept, b)
	}
	return kept
}
