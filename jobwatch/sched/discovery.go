package sched

import (
	"regexp"
	"slices"
	"strings"
)

// Discovery is what the parts of Kind.Discover printed, by name.
type Discovery struct {
	Parts  map[string]string
	Login  string   // the login on the host
	Groups []string // of the login
}

// Lines are the lines of a part that are not empty.
func (a *Discovery) Lines(part string) []string {
	return slices.DeleteFunc(strings.Split(a.Parts[part], "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// plainWord matches names that are safe wherever an answer can go.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+:/-]{0,99}$`)

// PlainWord is a name that the host printed, or "" if it is not a plain word.
func PlainWord(text string) string {
	text = strings.TrimSpace(text)
	if !plainWord.MatchString(text) {
		return ""
	}
	return text
}

// PlainWords are those of a list that are plain words.
func PlainWords(list []string) []string {
	var words []string
	for _, text := range list {
		if w := PlainWord(text); w != "" {
			words = append(words, w)
		}
	}
	return words
}
