//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/wait"
)

func TestSubmitInterrupted(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("login", "practice")
	s.cluster.Controller(false) // so that the submission waits
	cmd := s.command("submit", "practice", "~/jupyter.sh")
	var talk bytes.Buffer
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	saved := func() string {
		raw, _ := os.ReadFile(filepath.Join(s.home, "state", "state.json"))
		return string(raw)
	}
	wait.Until(t, "it is on record", func() bool { return strings.Contains(saved(), "submit-") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(talk.String(), "the job may still be submitted on practice") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), talk.String())
	}
	wait.Until(t, "status shows it", func() bool { return strings.Contains(s.run("status"), "`tunctl jobs practice` lists it") })
}
