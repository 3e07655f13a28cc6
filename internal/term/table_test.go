package term

import (
	"strings"
	"testing"
)

func TestTableHostileText(t *testing.T) {
	all := Table{Header: []string{"NAME", "STATE"}}
	all.Add([]string{"queued:\x1b[2J Priority"}, Cell{Text: "job\x1b]0;owned\x07\nname"}, Cell{Text: "\u202erunning"})
	got := all.Draw(Layout{})
	if strings.ContainsAny(got, "\x1b\x07\u202e") || !strings.Contains(got, "job name  running") || !strings.Contains(got, "queued: Priority") {
		t.Errorf("%q", got)
	}
}

func TestTableNote(t *testing.T) {
	note := "→ save your work: `tunctl extend jupyter 1h` or keep = true helps"
	if got, want := (Layout{Width: 42}).Note(note), "  → save your work:\n    `tunctl extend jupyter 1h` or\n    keep = true helps\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTableWideCharacters(t *testing.T) {
	t.Parallel()
	jobs := Table{Header: []string{"NAME", "STATE"}}
	for _, name := range []string{"学習", "e\u0301tude", "👩\u200d🔬 lab", "plain"} {
		jobs.Add(nil, Cell{Text: name}, Cell{Text: "running"})
	}
	want := "NAME    STATE\n" +
		"学習    running\n" +
		"e\u0301tude   running\n" +
		"👩\u200d🔬 lab  running\n" +
		"plain   running\n"
	if got := jobs.Draw(Layout{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":   "plain",
		"plainly": "plai…",
		"学習":      "学習",
		"学習用":     "学習…",
		"a学習":     "a学習",
		"a学習用":    "a学…",
		"👩\u200d🔬👩\u200d🔬👩\u200d🔬":            "👩\u200d🔬👩\u200d🔬…",
		"e\u0301e\u0301e\u0301e\u0301e\u0301": "e\u0301e\u0301e\u0301e\u0301e\u0301",
	} {
		if got := Truncate(text, 5); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestWrapMessageWide(t *testing.T) {
	t.Parallel()
	if got := WrapMessage("job 学習 学習 学習", 13); got != "job 学習 学習\n学習" {
		t.Errorf("got\n%s", got)
	}
}
