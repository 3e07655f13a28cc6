package main

import (
	"regexp"
	"strings"

	"github.com/rivo/uniseg"
)

// word is what is never broken: a command in backticks with its spaces, or what stands
// between two spaces.
var word = regexp.MustCompile("(?:`[^`]*`|[^ `]|`)+")

// steering is what a terminal takes for a colour: it is as wide as nothing.
var steering = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// marks are the beginnings under whose text a message goes on.
var marks = regexp.MustCompile(`^ *(?:tunctl: (?:error: |hint: )?|(?:\x1b\[[0-9;]*m)*[✓✗→!?…—](?:\x1b\[0m)? )?`)

// wrap breaks a line between words, so that none is wider than width where that can be
// helped; what follows the first is indented.
func wrap(line string, width, indent int) []string {
	var lines []string
	at, end := 0, 0 // where the line under way begins, and where its last word ends
	margin := ""
	for _, span := range word.FindAllStringIndex(line, -1) {
		if end > at && breadth(margin)+breadth(line[at:span[1]]) > width {
			lines = append(lines, margin+line[at:end])
			margin = strings.Repeat(" ", indent)
			at = span[0]
		}
		end = span[1]
	}
	return append(lines, margin+line[at:])
}

// wrapTalk breaks a message where the terminal ends, and indents what follows under
// its text.
func wrapTalk(text string, width int) string {
	const narrow = 60 // there the indent would take too much
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		// Below an empty line stands what is to be copied: the terminal's own break is
		// none there.
		code := len(lines) > 0 && lines[len(lines)-1] == "" && strings.HasPrefix(line, "  ")
		if width == 0 || code || breadth(line) <= width {
			lines = append(lines, line)
			continue
		}
		indent := breadth(marks.FindString(line))
		if width < narrow {
			indent = min(indent, 2)
		}
		lines = append(lines, wrap(line, width, indent)...)
	}
	return strings.Join(lines, "\n")
}

// breadth is how many cells of a terminal text takes: two for a Chinese character or an
// emoji, none for a combining accent or a colour.
func breadth(text string) int { return uniseg.StringWidth(steering.ReplaceAllString(text, "")) }
