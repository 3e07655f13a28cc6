package configs

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is one problem of a config file, at its place.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the problem is with the file as a whole
	Column  int    // in characters, from 1
	Source  string // the line itself, fit to print
	Message string
	Hint    string // what to do about it, when we know

	under string // what stands below Source: spaces, then carets
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
