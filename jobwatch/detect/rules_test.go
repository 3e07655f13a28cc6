package detect

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryRuleFitsTheFilter(t *testing.T) {
	t.Parallel()
	book := builtinRules()
	if n := len(book.groups); n > 1<<8 {
		t.Errorf("%d groups do not fit into a byte", n)
	}
	for _, r := range book.rules {
		one := map[bool]int{true: 1}
		if len(r.needle) < 2 || r.needle != strings.ToLower(r.needle) || one[r.re != ""]+one[r.read != nil]+one[r.names != ""] != 1 {
			t.Errorf("rule %+v is malformed", r)
		}
		if r.re != "" {
			r.pattern() // panics if it is no pattern
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
	var rules []rule
	for _, word := range []string{"he", "she", "hers", "://", "is running at", "➜"} {
		rules = append(rules, rule{needle: word})
	}
	set := newRuleSet(rules)
	for text, want := range map[string][]int{
		"usHErs":                    {0, 1, 2},
		"nothing":                   nil,
		"http://x":                  {3},
		"Jupyter is Running AT: he": {0, 4},
		"is runningis running at":   {4},
		"  ➜  URL":                  {5},
		"he, He and a sh":           {0},
		"h":                         nil,
		"":                          nil,
	} {
		if got, _ := set.find([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
