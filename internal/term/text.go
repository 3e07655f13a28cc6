package term

import (
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// marks are the beginnings of messages; the next lines are indented to the text after them.
var marks = regexp.MustCompile(`^ *(?:tunctl: (?:error: |hint: )?|(?:\x1b\[[0-9;]*m)*[✓✗→!?…—](?:\x1b\[0m)? )?`)

// Wrap breaks a line between words, so that none is wider than width unless a word
// is; the lines after the first are indented.
func Wrap(line string, width, indent int) []string {
	var lines []string
	at, end := 0, 0 // where the current line begins, and where its last word ends
	margin := ""
	for from, to := nextWord(line, 0); from < to; from, to = nextWord(line, to) {
		if end > at && TextWidth(margin)+TextWidth(line[at:to]) > width {
			lines = append(lines, margin+line[at:end])
			margin = strings.Repeat(" ", indent)
			at = from
		}
		end = to
	}
	return append(lines, margin+line[at:])
}

// nextWord is where the next word of a line begins and ends; at the end of the line it is
// empty. A word is never broken: it is the text between two spaces, with all of a command in
// backticks, and a key of the config with its value. All of a program's help is wrapped when it starts, so this is no regexp.
func nextWord(line string, at int) (from, to int) {
	for at < len(line) && line[at] == ' ' {
		at++
	}
	from = at
	const equals = " = "
	for at < len(line) && (line[at] != ' ' || strings.HasPrefix(line[at:], equals)) {
		if line[at] == ' ' {
			at += len(equals)
			continue
		}
		if command := strings.IndexByte(line[at+1:], '`'); line[at] == '`' && command >= 0 {
			at += 1 + command
		}
		at++
	}
	return from, at
}

// WrapMessage breaks a message to the terminal's width, and indents the next lines to its
// text. A width of 0 breaks nothing.
func WrapMessage(text string, width int) string {
	const narrow = 60 // there the indent would take too much
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		// An indented line after an empty one is to be copied: the terminal breaks it
		// without adding a line end.
		code := len(lines) > 0 && lines[len(lines)-1] == "" && strings.HasPrefix(line, "  ")
		if width == 0 || code || TextWidth(line) <= width {
			lines = append(lines, line)
			continue
		}
		indent := TextWidth(marks.FindString(line))
		if width < narrow {
			indent = min(indent, 2)
		}
		lines = append(lines, Wrap(line, width, indent)...)
	}
	return strings.Join(lines, "\n")
}

// TextWidth is the number of terminal cells that text takes: two for a Chinese character or an
// emoji, none for a combining accent or a colour.
func TextWidth(text string) int {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return ansi.StringWidth(text)
		}
	}
	return len(text) // what most text is, counted in no time
}

// Truncate cuts text to a width in terminal cells, and ends it with "…" if it did. It never
// cuts a character in half: one that takes two cells may leave the last cell empty.
func Truncate(text string, width int) string { return ansi.Truncate(text, width, "…") }

// Pad fills text with spaces up to a width in terminal cells.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-TextWidth(text)))
}
