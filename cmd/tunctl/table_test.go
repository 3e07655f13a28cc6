package main

import (
	"strings"
	"testing"
)

func TestATableShowsNothingThatSteersATerminal(t *testing.T) {
	all := table{head: []string{"NAME", "STATE"}}
	all.add([]string{"queued:\x1b[2J Priority"}, cell{text: "job\x1b]0;owned\x07\nname"}, cell{text: "\u202erunning"})
	got := all.draw(paper{})
	if strings.ContainsAny(got, "\x1b\x07\u202e") || !strings.Contains(got, "job name  running") || !strings.Contains(got, "queued: Priority") {
		t.Errorf("%q", got)
	}
}
