package configs

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
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
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Message)
	if e.Line > 0 {
		number := strconv.Itoa(e.Line)
		fmt.Fprintf(&b, "\n  %s | %s", number, e.Source)
		fmt.Fprintf(&b, "\n  %s | %s", strings.Repeat(" ", len(number)), e.under)
	}
	if e.Hint != "" {
		b.WriteString("\n  " + e.Hint)
	}
	return b.String()
}

// Errors are all the problems of a config file, in the order of their places.
type Errors []*Error

// Error renders one problem after the other.
func (errs Errors) Error() string {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap lets errors.As find each *Error.
func (errs Errors) Unwrap() []error {
	list := make([]error, len(errs))
	for i, e := range errs {
		list[i] = e
	}
	return list
}

// span is a range of a source's bytes.
type span struct{ start, end int }

// source is a config file's text, and the problems found in it.
type source struct {
	name   string
	data   []byte
	lines  []int    // where each line starts
	kinds  []string // the kinds of tables that have names, for hints
	errors Errors
}

func newSource(name string, data []byte) *source {
	s := &source{name: name, data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// line returns the number, from 1, of the line that holds the byte at offset.
func (s *source) line(offset int) int {
	return sort.SearchInts(s.lines, offset+1)
}

// lineSpan is the span of the line of that number, without its line end.
func (s *source) lineSpan(number int) span {
	start, end := s.lines[number-1], len(s.data)
	if number < len(s.lines) {
		end = s.lines[number] - 1
	}
	text := bytes.TrimSuffix(s.data[start:end], []byte("\r"))
	return span{start, start + len(text)}
}

func (s *source) text(at span) string { return string(s.data[at.start:at.end]) }

// within is the place of the first occurrence of part in at, or all of at if part does
// not occur literally, as in a string with escapes.
func (s *source) within(at span, part string) span {
	i := bytes.Index(s.data[at.start:at.end], []byte(part))
	if i < 0 || part == "" {
		return at
	}
	return span{at.start + i, at.start + i + len(part)}
}

// addError adds a problem at a place.
func (s *source) addError(at span, hint, format string, args ...any) {
	if len(s.errors) == maxErrors {
		return
	}
	number := s.line(at.start)
	line := s.lineSpan(number)
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

// err returns the problems in the order of their places, or nil.
func (s *source) err() error {
	if len(s.errors) == 0 {
		return nil
	}
	slices.SortStableFunc(s.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return s.errors
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
