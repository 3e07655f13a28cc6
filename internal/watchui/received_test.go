package watchui

import (
	"slices"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// logged are lines of a log as the agent sends them.
func logged(texts ...string) (c api.LogChunk) {
	for _, text := range texts {
		c.Lines = append(c.Lines, api.LogLine{{Text: text}})
	}
	return c
}

func TestLogTail(t *testing.T) {
	var l logTail
	open := logged("one", "tw")
	open.Open = true
	l.add(open)
	l.add(api.LogChunk{})
	l.add(api.LogChunk{Lines: []api.LogLine{{{Text: "two\t"}, {Text: "red", Style: "bold red"}}, {}}})
	if got, want := l.all("", term.Layout{}.Paint), []string{"one", "two    red", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := l.all("    red", term.Layout{Colours: true}.Paint), []string{"two    \x1b[1m\x1b[31mred\x1b[0m"}; !slices.Equal(got, want) {
		t.Errorf("in colours %q, want %q", got, want)
	}
	for range 10 * mostLogLines {
		l.add(logged("more"))
	}
	if lines := l.all("", term.Layout{}.Paint); len(lines) != mostLogLines || len(l.lines) > 2*mostLogLines {
		t.Errorf("%d lines are shown, %d kept", len(lines), len(l.lines))
	}
}
