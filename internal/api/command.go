package api

import "strings"

// Span is a part of a text, or a command in it.
type Span struct {
	Text    string
	Command bool
}

// Clauses are the parts of a hint, each with its commands. One per line is easier to read
// if there is room.
func Clauses(hint string) [][]Span {
	var list [][]Span
	for clause := range strings.SplitSeq(hint, "; ") {
		if spans := Spans(clause); spans != nil {
			list = append(list, spans)
		}
	}
	return list
}

// Spans finds the commands in a text: they are in backticks.
func Spans(text string) []Span {
	parts := strings.Split(text, "`")
	if len(parts)%2 == 0 { // unbalanced: they quote nothing
		return []Span{{Text: text}}
	}
	var list []Span
	for i, part := range parts {
		if part != "" {
			list = append(list, Span{Text: part, Command: i%2 == 1})
		}
	}
	return list
}
