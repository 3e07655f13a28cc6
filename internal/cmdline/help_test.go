package cmdline

import (
	"strings"
	"testing"

	"tunctl/internal/term"
)

func TestReflowKeepsWhatIsIndented(t *testing.T) {
	prose := strings.TrimSpace(strings.Repeat("some words ", 12))
	got := reflow(prose + "\nand on\n\nbash:  source it\nzsh:   source it\n\n  tunctl up      as it is\n\nend")
	if want := "\n\nbash:  source it\nzsh:   source it\n\n  tunctl up      as it is\n\nend"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s", got)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if term.TextWidth(line) > helpWidth {
			t.Errorf("%d columns: %s", term.TextWidth(line), line)
		}
	}
}
