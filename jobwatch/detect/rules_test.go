package detect

import (
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
