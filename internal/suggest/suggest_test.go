package suggest

import (
	"slices"
	"strings"
	"testing"
)

func TestNearestFindsWhatWasMeant(t *testing.T) {
	keys := []string{"host", "app", "job", "submit", "args", "workdir", "log", "local", "reach", "keep", "open", "forward"}
	for _, tt := range []struct {
		name, word string
		among      []string
		want       []string
	}{
		{"a doubled letter", "locall", keys, []string{"local"}},
		{"two letters swapped", "hsot", keys, []string{"host"}},
		{"a letter missing", "forwrd", keys, []string{"forward"}},
		{"a plural", "forwards", keys, []string{"forward"}},
		{"another case", "Reach", keys, []string{"reach"}},
		{"a hyphen for an underscore", "before-login", []string{"ssh", "before_login"}, []string{"before_login"}},
		{"what it begins", "jup", []string{"rstudio", "jupyter", "jupyter-gpu"}, []string{"jupyter", "jupyter-gpu"}},
		{"what it begins before a slip", "stat", []string{"start", "status"}, []string{"status", "start"}},
		{"the nearest first", "jupiter", []string{"jupyter2", "jupyter"}, []string{"jupyter", "jupyter2"}},
		{"equally near in their order", "nodb", []string{"nodc", "noda"}, []string{"nodc", "noda"}},
		{"a part too many", "local_port", keys, []string{"local"}},
		{"a longer word", "logging", keys, nil},
		{"nothing in common", "colour", keys, nil},
		{"one letter for another", "x", []string{"y"}, nil},
		{"letters beyond ASCII", "größe", []string{"grösse", "größen"}, []string{"größen", "grösse"}},
		{"no word", "", keys, nil},
		{"no candidates", "host", nil, nil},
		{"far too long", strings.Repeat("a", 65), []string{strings.Repeat("a", 64)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Nearest(tt.word, tt.among); !slices.Equal(got, tt.want) {
				t.Errorf("Nearest(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}

func TestEditsIsSymmetric(t *testing.T) {
	for _, pair := range [][2]string{{"", "abc"}, {"ab", "ba"}, {"kitten", "sitting"}, {"abcd", "acbd"}} {
		a, b := []rune(pair[0]), []rune(pair[1])
		if there, back := edits(a, b), edits(b, a); there != back {
			t.Errorf("edits(%q, %q) = %d but %d the other way", pair[0], pair[1], there, back)
		}
	}
	if got := edits([]rune("kitten"), []rune("sitting")); got != 3 {
		t.Errorf("edits(kitten, sitting) = %d, want 3", got)
	}
}

func TestAHintNamesTheNearestWordAndListsAll(t *testing.T) {
	for _, tt := range []struct {
		word  string
		among []string
		want  string
	}{
		{"jupter", []string{"db", "jupyter"}, "did you mean jupyter? available: jupyter, db"},
		{"jupter", []string{"jupyter"}, "did you mean jupyter?"},
		{"xyz", []string{"db", "jupyter"}, "available: db, jupyter"},
		{"jupter", nil, ""},
	} {
		if got := Hint(tt.word, tt.among); got != tt.want {
			t.Errorf("Hint(%q, %q) = %q, want %q", tt.word, tt.among, got, tt.want)
		}
	}
}
