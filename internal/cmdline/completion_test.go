package cmdline

import (
	"strings"
	"testing"
)

func TestWhatAnArgumentIsFollowsFromTheHelp(t *testing.T) {
	for _, c := range []struct {
		usage string
		index int
		want  string
	}{
		{"", 0, ""},
		{"[SESSION]", 0, "SESSION"},
		{"[SESSION]", 1, ""},
		{"[SESSION...]", 2, "SESSION"},
		{"[SESSION] TIME", 0, "SESSION"},
		{"[SESSION | HOST JOB]", 0, "SESSION HOST"},
		{"[SESSION | HOST JOB]", 1, "JOB"},
		{"HOST|SESSION [COMMAND...]", 0, "HOST SESSION"},
		{"HOST|SESSION ADDR:PORT | --gateway HOST|SESSION", 0, "HOST SESSION HOST SESSION"},
		{"HOST SCRIPT [-- WORDS...]", 2, ""},
		{"SRC... DST", 0, "SRC"},
		{"SRC... DST", 1, "SRC DST"},
		{"SRC... DST", 4, "SRC DST"},
		{"bash|zsh", 0, "bash zsh"},
		{"FILE|-", 0, "FILE -"},
	} {
		if got := strings.Join(ArgumentKinds(c.usage, c.index), " "); got != c.want {
			t.Errorf("argument %d of %q is %q, want %q", c.index, c.usage, got, c.want)
		}
	}
}
