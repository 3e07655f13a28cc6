package show

import (
	"strings"
	"testing"
)

func TestCommandsAndOutputAreLeftOutWhereTheyAreOfNoUse(t *testing.T) {
	for text, want := range map[string]string{
		"no network": "no network",
		"the job failed (job 7) before it served anything; its log ends with:\nKilled": "the job failed (job 7) before it served anything",
		"`tunctl up jupyter` starts a new one; `tunctl logs jupyter` shows it":         "",
		"narval asks for a code: run `tunctl login narval`":                            "narval asks for a code",
		"it asks for a code, run tunctl login narval":                                  "it asks for a code",
		"log in and submit the job: `tunctl up jupyter` does both":                     "log in and submit the job",
		"one thing; another": "one thing; another",
	} {
		if got := WithoutCommands(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestALongCauseIsCutBetweenWords(t *testing.T) {
	for text, want := range map[string]string{
		"short\n and  sweet": "short and sweet",
		"job 1005 failed with exit status 137 at 07:14; its log ends with:\nKilled": "job 1005 failed with exit status 137 at 07:14; its log ends…",
		strings.Repeat("ü", 61): strings.Repeat("ü", 59) + "…",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}
