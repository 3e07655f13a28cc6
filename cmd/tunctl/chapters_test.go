package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestEveryCommandStandsInAChapterAndThoseInOrder(t *testing.T) {
	var chapters []string
	for _, c := range newApp(strings.NewReader(""), io.Discard, io.Discard).Commands {
		if c.Hidden != (c.Category == "") {
			t.Errorf("%q: hidden is %v, its chapter %q", c.Name, c.Hidden, c.Category)
		}
		if !c.Hidden && !slices.Contains(chapters, c.Category) {
			chapters = append(chapters, c.Category)
		}
	}
	if !slices.IsSorted(chapters) {
		t.Errorf("help sorts the chapters, and so shows them in another order than %q", chapters)
	}
}
