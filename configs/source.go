package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxErrors is how many problems of one file are kept. A file with more is probably
	// no config.
	maxErrors = 50

	// shownBefore and shownAfter are how many characters of a long line are shown
	// on either side of where a problem begins.
	shownBefore = 60
	shownAfter  = 100

	// maxMessage is how many characters a message may have, since it can quote a
	// name or a value of any length.
	maxMessage = 300
)

// Error is one problem of a config file, with its place.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the problem is with the file as a whole
	Column  int    // in characters, from 1
	Source  string // the line itself, without control characters
	Message string
	Hint    string // how to fix it, if known

	under string // the line below Source: spaces, then carets
}

// Error renders the place, the problem, the line with the part in question
// underlined, and the hint.
func (e *Error) Error() string {
	text := e.File + ": " + e.Message
	if e.Line > 0 {
		number := strconv.Itoa(e.Line)
		text = fmt.Sprintf("%s:%s:%d: %s\n  %s | %s\n  %*s | %s", e.File, number, e.Column, e.Message,
			number, e.Source, len(number), "", e.under)
	}
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}

// span is a range of a source's bytes.
type span struct{ start, end int }

// source is a config file's text, and the problems found in it.
type source struct {
	name   string
	data   []byte
	kinds  []string // the kinds of tables that have names, for hints
	errors []*Error
}

// newSource takes the text of a file, without the mark that Windows editors put in front.
func newSource(name string, data []byte, kinds ...string) *source {
	return &source{name: name, data: bytes.TrimPrefix(data, []byte("\uFEFF")), kinds: kinds}
}

// isText reports a file that is no text: the messages of the TOML parser would not help.
func (s *source) isText() bool {
	invalid, zero := invalidUTF8(s.data), bytes.IndexByte(s.data, 0)
	switch {
	case len(s.data) > maxSize:
		s.addFileError("is this the right file?", "the file is larger than %d MB", maxSize>>20)
	case bytes.HasPrefix(s.data, []byte("\xFF\xFE")), bytes.HasPrefix(s.data, []byte("\xFE\xFF")):
		s.addFileError("save it as UTF-8", "the file is written in UTF-16")
	case invalid >= 0:
		s.addError(span{invalid, invalid + 1}, "save the file as UTF-8", "the byte 0x%02x is not valid UTF-8", s.data[invalid])
	case zero >= 0:
		s.addError(span{zero, zero + 1}, "is this the right file?", "the file contains a zero byte, so it is not a text file")
	default:
		return true
	}
	return false
}

// invalidUTF8 is where the first byte is that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\uFFFD")) {
			return i
		}
	}
	return -1
}

// endOfLine is where the line that holds the byte at offset ends.
func (s *source) endOfLine(offset int) int {
	if i := bytes.IndexByte(s.data[offset:], '\n'); i >= 0 {
		return offset + i
	}
	return len(s.data)
}

// line is the number, from 1, of the line that holds the byte at offset, and its place
// without its line end.
func (s *source) line(offset int) (int, span) {
	start, end := bytes.LastIndexByte(s.data[:offset], '\n')+1, s.endOfLine(offset)
	text := bytes.TrimSuffix(s.data[start:end], []byte("\r"))
	return bytes.Count(s.data[:start], []byte("\n")) + 1, span{start, start + len(text)}
}

// full reports whether there are as many problems as are kept. What only a message needs, and
// takes a look at the whole text, is not computed any more.
func (s *source) full() bool { return len(s.errors) >= maxErrors }

// lineNumber is the number, from 1, of the line where a place begins, for a message.
func (s *source) lineNumber(at span) int {
	if s.full() {
		return 0
	}
	number, _ := s.line(at.start)
	return number
}

func (s *source) text(at span) string { return string(s.data[at.start:at.end]) }

// within is the place of the first occurrence of part in at, for a message, or all of at if
// part does not occur literally, as in a string with escapes.
func (s *source) within(at span, part string) span {
	if s.full() {
		return at
	}
	i := bytes.Index(s.data[at.start:at.end], []byte(part))
	if i < 0 || part == "" {
		return at
	}
	return span{at.start + i, at.start + i + len(part)}
}

// addError adds a problem at a place.
func (s *source) addError(at span, hint, format string, args ...any) {
	if s.full() {
		return
	}
	number, line := s.line(at.start)
	// A problem that spans lines is underlined to the end of its first.
	at.start = min(at.start, line.end)
	at.end = max(at.start, min(at.end, line.end))

	e := &Error{
		File:    s.name,
		Line:    number,
		Column:  utf8.RuneCount(s.data[line.start:at.start]) + 1,
		Message: crop(fmt.Sprintf(format, args...)),
		Hint:    crop(hint),
	}
	e.Source, e.under = excerpt(s.text(span{line.start, at.start}), s.text(at), s.text(span{at.end, line.end}))
	s.errors = append(s.errors, e)
}

// addFileError adds a problem of the file as a whole.
func (s *source) addFileError(hint, format string, args ...any) {
	s.errors = append(s.errors, &Error{File: s.name, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// err is all the problems, each an *Error, in the order of their places.
func (s *source) err() error {
	slices.SortStableFunc(s.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errors.Join(each(s.errors, func(e *Error) error { return e })...)
}

// excerpt prepares a line for printing, cropped if it is long, and underlines its middle
// part. Tabs stay in both, so that they align at any tab width.
func excerpt(before, part, after string) (line, under string) {
	if r := []rune(before); len(r) > shownBefore {
		before = "…" + string(r[len(r)-shownBefore:])
	}
	rest := []rune(part + after)
	width := min(utf8.RuneCountInString(part), shownAfter)
	if len(rest) > shownAfter {
		rest = append(rest[:shownAfter:shownAfter], '…')
	}
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	return printable(before + string(rest)), pad + strings.Repeat("^", max(1, width))
}

// printable replaces what could move the cursor or colour the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

func crop(text string) string {
	if r := []rune(text); len(r) > maxMessage {
		return string(r[:maxMessage]) + "…"
	}
	return text
}
