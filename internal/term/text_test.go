package term

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestWrapMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"it fits":          {"tunctl: error: short", 20, "tunctl: error: short"},
		"no terminal":      {"tunctl: error: " + strings.Repeat("long ", 40), 0, "tunctl: error: " + strings.Repeat("long ", 40)},
		"an error":         {"tunctl: error: one two three four five six seven eight nine ten eleven", 60, "tunctl: error: one two three four five six seven eight nine\n               ten eleven"},
		"a narrow one":     {"tunctl: error: one two three four", 24, "tunctl: error: one two\n  three four"},
		"a mark":           {"  → one two three four", 14, "  → one two\n  three four"},
		"a coloured mark":  {"\x1b[32m✓\x1b[0m one two three", 10, "\x1b[32m✓\x1b[0m one two\n  three"},
		"a command":        {"see what `tunctl up jupyter` says", 24, "see what\n`tunctl up jupyter` says"},
		"a key's value":    {"write keep = true there", 14, "write\nkeep = true\nthere"},
		"a long address":   {"open http://127.0.0.1:8888/lab?token=0123456789 now", 20, "open\nhttp://127.0.0.1:8888/lab?token=0123456789\nnow"},
		"two lines":        {"one\ntwo three", 5, "one\ntwo\nthree"},
		"what one copies":  {"look:\n\n  TUNCTL_HOME=/tmp/x tunctl status\n\nthe end of it", 10, "look:\n\n  TUNCTL_HOME=/tmp/x tunctl status\n\nthe end of\nit"},
		"a backtick alone": {"one ` two three", 9, "one ` two\nthree"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WrapMessage(tt.text, tt.width); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestNextWord(t *testing.T) {
	words := regexp.MustCompile("(?:`[^`]*`|[^ `]|`)+")
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		line := make([]byte, random.IntN(20))
		for i := range line {
			line[i] = "ab `` \n"[random.IntN(7)]
		}
		var got [][]int
		for from, to := nextWord(string(line), 0); from < to; from, to = nextWord(string(line), to) {
			got = append(got, []int{from, to})
		}
		if want := words.FindAllStringIndex(string(line), -1); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%q has the words %v, want %v", line, got, want)
		}
	}
}
