package main

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"tunctl/internal/editor"
)

func TestCodeHelp(t *testing.T) {
	text := strings.Join(strings.Fields(helpOf(t, "code")), " ")
	for _, e := range editor.All {
		if !strings.Contains(text, e.Title) || !strings.Contains(text, " "+e.Command) {
			t.Errorf("%s (%s) is not named:\n%s", e.Title, e.Command, text)
		}
	}
}

func TestAHomeThatTheShellHereExpandedIsTheOneInsideTheJob(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of unix")
	}
	t.Setenv("HOME", "/Users/ann")
	for path, want := range map[string]string{
		"project":            `for path in 'project'; do`,
		"~/it's":             `for path in "$HOME"/'it'\''s'; do`,
		"/scratch/x":         `for path in '/scratch/x'; do`,
		"/Users/ann/project": `for path in '/Users/ann/project' "$HOME"/'project'; do`,
		"/Users/anna":        `for path in '/Users/anna'; do`,
	} {
		if lines := strings.Split(resolveScript(path), "\n"); !slices.Contains(lines, want) {
			t.Errorf("%s: %q, want %q", path, lines, want)
		}
	}
}
