//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/wait"
)

func TestAbsenceAtStatus(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	looks := func() string {
		code, out := ptytest.Start(t, s.command("status")).End()
		if code != 0 {
			t.Fatal(out)
		}
		return out
	}
	s.run("up", "jupyter", "--no-open")
	if out := looks(); strings.Contains(out, "Since ") {
		t.Errorf("at the first look: %s", out)
	}
	looked := filepath.Join(s.home, "state", "looked")
	before := time.Now().Add(-5 * time.Hour)
	if err := os.Chtimes(looked, before, before); err != nil {
		t.Fatal(err)
	}
	s.run("down", "jupyter", "--cancel")
	wait.Until(t, "the end is in the history", func() bool { return strings.Contains(s.run("history"), "cancelled") })
	s.run("status") // into a pipe nobody looks
	if out := looks(); !strings.Contains(out, "Since ") || !strings.Contains(out, "jupyter: job 1001 was cancelled") {
		t.Errorf("after five hours: %s", out)
	}
	if out := looks(); strings.Contains(out, "Since ") {
		t.Errorf("after that: %s", out)
	}
}
