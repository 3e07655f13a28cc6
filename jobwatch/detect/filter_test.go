package detect

import (
	"slices"
	"testing"
)

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
