package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestEveryCommandStandsInOneChapter(t *testing.T) {
	var chapters []string
	for _, c := range newApp(strings.NewReader(""), io.Discard, io.Discard).Commands {
		if c.Hidden != (c.Category == "") {
			t.Errorf("%q: hidden is %v, its chapter %q", c.Name, c.Hidden, c.Category)
		}
		if !c.Hidden {
			chapters = append(chapters, c.Category)
		}
	}
	if once := slices.Compact(chapters); len(once) != len(slices.Compact(slices.Sorted(slices.Values(once)))) {
		t.Errorf("a chapter begins twice: %q", once)
	}
}
