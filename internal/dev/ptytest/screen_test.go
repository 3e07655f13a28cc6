//go:build unix

package ptytest

import (
	"strings"
	"testing"
)

func TestAScreenShowsWhatATerminalWould(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"lines":                   {"one\r\ntwo", "one|two|"},
		"a colour, a title":       {"\x1b[1;31mred\x1b[0m\x1b]0;title\x07!", "red!||"},
		"a position":              {"\x1b[2;3Hx\x1b[Hy", "y|  x|"},
		"a text written over":     {"abc\rx\x1b[Cy", "xby||"},
		"the rest of a line":      {"abcdef\x1b[3G\x1b[K", "ab||"},
		"the rest of the screen":  {"a\r\nb\r\nc\x1b[1;2H\x1b[J", "a||"},
		"characters erased":       {"abcdef\r\x1b[2X", "  cdef||"},
		"characters deleted":      {"abcdef\r\x1b[2P", "cdef||"},
		"characters inserted":     {"abcdef\r\x1b[2@", "  abcd||"},
		"a character repeated":    {"a-\x1b[3b", "a----||"},
		"a line that is too long": {"abcdefgh", "abcdef|gh|"},
		"more lines than fit":     {"a\r\nb\r\nc\r\nd", "b|c|d"},
		"lines inserted":          {"a\r\nb\r\nc\x1b[2H\x1b[L", "a||b"},
		"lines deleted":           {"a\r\nb\r\nc\x1b[H\x1b[M", "b|c|"},
		"rows that scroll":        {"a\r\nb\r\nc\x1b[1;2r\x1b[2H\nd\x1b[r", "b|d|c"},
		"rows that scroll back":   {"a\r\nb\r\nc\x1b[H\x1bM", "|a|b"},
		"another screen":          {"shell\x1b[?1049hx", "x||"},
	} {
		s := newScreen(6, 3)
		s.write(tt.output)
		lines := make([]string, 3)
		for i, row := range s.cells {
			lines[i] = strings.TrimRight(text(row), " ")
		}
		if got := strings.Join(lines, "|"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
