package main

import "io"

// tamed passes on to a terminal what others wrote, such as a job's log, and leaves out
// what would steer it: cursor moves, titles, clipboards, questions that a terminal
// answers as if they were typed (ECMA-48). Colours, tabs and the carriage returns of
// progress bars stay. A sequence may come in pieces.
type tamed struct {
	out      io.Writer
	state    tamedState
	colour   []byte // what came of a sequence that may be a colour
	coloured bool   // the terminal was left in a colour
}

type tamedState int

const (
	inText    tamedState = iota
	afterC2              // the first byte of a C1 control in UTF-8, or of a letter
	afterEsc             // ESC
	inControl            // ESC [
	inString             // ESC ] and its like, up to BEL or ESC \
	inBreak              // ESC within such a string
)

const (
	esc = 0x1b
	bel = 0x07
)

// Write implements io.Writer.
func (t *tamed) Write(p []byte) (int, error) {
	kept := make([]byte, 0, len(p))
	for _, b := range p {
		kept = t.take(kept, b)
	}
	if _, err := t.out.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end leaves the terminal in its own colour.
func (t *tamed) end() {
	if t.coloured {
		_, _ = io.WriteString(t.out, "\x1b[0m")
	}
}

// take appends to kept what a byte adds to the text.
func (t *tamed) take(kept []byte, b byte) []byte {
	switch state := t.state; state {
	case afterC2:
		t.state = inText
		if b >= 0x80 && b <= 0x9f {
			t.introduce(b - 0x40) // a C1 control is ESC and a letter in one
			return kept
		}
		return t.take(append(kept, 0xc2), b)
	case afterEsc, inBreak:
		t.state = inText
		switch {
		case b == '\\' && state == inBreak:
		case b < ' ':
			return t.take(kept, b)
		case b <= '/': // its end is yet to come
			t.state = afterEsc
		default:
			t.introduce(b)
		}
		return kept
	case inControl:
		return t.control(kept, b)
	case inString:
		switch b {
		case bel:
			t.state = inText
		case esc:
			t.state = inBreak
		case '\n': // it never ended: the rest of the log is no part of it
			t.state = inText
			return append(kept, b)
		}
		return kept
	}
	return t.text(kept, b)
}

func (t *tamed) text(kept []byte, b byte) []byte {
	switch {
	case b == esc:
		t.state = afterEsc
	case b == 0xc2:
		t.state = afterC2
	case b == '\n', b == '\t', b == '\r', b >= ' ' && b != 0x7f:
		return append(kept, b)
	}
	return kept
}

// introduce enters what ESC and a letter begin.
func (t *tamed) introduce(b byte) {
	switch b {
	case '[':
		t.state, t.colour = inControl, t.colour[:0]
	case ']', 'P', 'X', '^', '_':
		t.state = inString
	}
}

// control takes in a control sequence, and passes it on if it is a colour.
func (t *tamed) control(kept []byte, b byte) []byte {
	const longest = 64
	switch {
	case b >= '0' && b <= ';':
		if len(t.colour) < longest {
			t.colour = append(t.colour, b)
		}
	case b >= ' ' && b <= '?': // no colour has these
		t.colour = append(t.colour[:0], '?')
	case b == 'm':
		t.state = inText
		if len(t.colour) > 0 && t.colour[0] == '?' || len(t.colour) == longest {
			return kept
		}
		t.coloured = len(t.colour) > 0 && string(t.colour) != "0"
		return append(append(append(kept, esc, '['), t.colour...), 'm')
	case b >= '@' && b <= '~':
		t.state = inText
	default:
		t.state = inText
		return t.text(kept, b)
	}
	return kept
}
