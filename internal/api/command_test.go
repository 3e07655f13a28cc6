package api

import (
	"slices"
	"testing"
)

func TestALeftOverBacktickQuotesNothing(t *testing.T) {
	for text, want := range map[string][]Span{
		"":            nil,
		"plain":       {{Text: "plain"}},
		"it`s":        {{Text: "it`s"}},
		"run `a` now": {{Text: "run "}, {Text: "a", Command: true}, {Text: " now"}},
		"`a`":         {{Text: "a", Command: true}},
	} {
		if got := Spans(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestAHintHasALineForEachOfItsParts(t *testing.T) {
	got := Clauses("`a` starts it; see `b`")
	want := [][]Span{{{Text: "a", Command: true}, {Text: " starts it"}}, {{Text: "see "}, {Text: "b", Command: true}}}
	if !slices.EqualFunc(got, want, slices.Equal[[]Span]) || Clauses("") != nil {
		t.Errorf("got %v, want %v", got, want)
	}
}
