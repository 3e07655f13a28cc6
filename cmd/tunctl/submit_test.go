//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	for deadline := time.Now().Add(patience); !strings.Contains(saved(), "submit-"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not on record: %s", saved())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted || !strings.Contains(talk.String(), "the job may still be submitted on practice") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), talk.String())
	}
	for deadline := time.Now().Add(patience); !strings.Contains(s.run("status"), "`tunctl jobs practice` lists it"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("status does not show it: %s", s.run("status"))
		}
	}
}
