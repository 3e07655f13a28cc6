//go:build unix

package ptytest

import (
	"fmt"
	"html"
	"strings"
)

// HTML is what the terminal shows now, up to the last line with text, as the content of a
// <pre>. What does not look as usual is in spans with the classes bold, cursor, and c32 for
// the colour 32.
func (p *Program) HTML() string {
	s := p.screen()
	lines := make([]string, len(s.cells))
	for y, row := range s.cells {
		end := len([]rune(strings.TrimRight(text(row), " ")))
		cursor := -1
		if y == s.y && s.x < len(row) {
			cursor = s.x
			end = max(end, cursor+1)
		}
		lines[y] = htmlOf(row[:end], cursor)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// htmlOf is a row whose cell with this index has the cursor.
func htmlOf(row []cell, cursor int) string {
	var b strings.Builder
	open := ""
	for x, c := range row {
		if class := classOf(c.look, x == cursor); class != open {
			if open != "" {
				b.WriteString("</span>")
			}
			if class != "" {
				fmt.Fprintf(&b, `<span class="%s">`, class)
			}
			open = class
		}
		b.WriteString(html.EscapeString(string(c.char)))
	}
	if open != "" {
		b.WriteString("</span>")
	}
	return b.String()
}

func classOf(l look, cursor bool) string {
	var classes []string
	if l.bold {
		classes = append(classes, "bold")
	}
	if l.colour != 0 {
		classes = append(classes, fmt.Sprintf("c%d", l.colour))
	}
	if cursor {
		classes = append(classes, "cursor")
	}
	return strings.Join(classes, " ")
}
