//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"tunctl/internal/dev/ptytest"
)

func TestAnEmptyLogIsSaidToBeEmpty(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	script := filepath.Join(t.TempDir(), "silent.sh")
	s.write(script, "#!/bin/sh\n:\n")
	job := strings.TrimSpace(s.run("submit", "practice", "local:"+script))
	if err := s.cluster.Await(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	k := ptytest.Start(t, s.command("logs", "-f", "practice", job))
	k.Expect("no output yet; waiting for the log")
	k.Type("\x03")
	if code, said := k.End(); code != exitInterrupted {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	k = ptytest.Start(t, s.command("logs", "practice", job))
	k.Expect("the log is empty so far")
	if code, said := k.End(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
