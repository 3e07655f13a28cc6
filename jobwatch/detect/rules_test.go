package detect

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryRuleFitsTheFilter(t *testing.T) {
	t.Parallel()
	book := builtinRules()
	if n, limit := len(book.rules), len(bitset{})*64; n > limit || len(book.byNeedle) > limit {
		t.Errorf("%d rules and %d needles, of at most %d", n, len(book.byNeedle), limit)
	}
	if n := len(book.filter.next); n >= finds {
		t.Errorf("%d states, of less than %d", n, finds)
	}
	for _, r := range book.rules {
		if r.needle == "" || r.needle != strings.ToLower(r.needle) || (r.re == nil) == (r.read == nil) {
			t.Errorf("rule %+v is malformed", r)
		}
		if r.re != nil {
			r.re() // panics if it is no pattern
		}
	}
}

func TestEveryRuleIsAboutAKnownApp(t *testing.T) {
	t.Parallel()
	for _, r := range builtinRules().rules {
		if r.app != "" && appRank(r.app) < 0 {
			t.Errorf("%q is about %q", r.needle, r.app)
		}
	}
}

func TestTheFilterFindsEveryWordInAnyCase(t *testing.T) {
	t.Parallel()
	words := []string{"he", "she", "hers", "://", "is running at", "➜"}
	f := newLineFilter(words)
	for text, want := range map[string][]int{
		"usHErs":                    {0, 1, 2},
		"nothing":                   nil,
		"http://x":                  {3},
		"Jupyter is Running AT: he": {0, 4},
		"is runningis running at":   {4},
		"  ➜  URL":                  {5},
	} {
		if got := slices.Collect(f.scan([]byte(text)).all); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
