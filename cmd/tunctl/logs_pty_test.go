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
	submit := func(text string) string {
		script := filepath.Join(t.TempDir(), "silent.sh")
		s.write(script, "#!/bin/sh\n"+text+"\n")
		return strings.TrimSpace(s.run("submit", "practice", "local:"+script))
	}
	running, over := submit("exec sleep 600"), submit(":")
	k := ptytest.Start(t, s.command("logs", "-f", "practice", running))
	k.Expect("no output yet; waiting for the log")
	k.Type("\x03")
	k.WantEnd(exitInterrupted)
	if err := s.cluster.Await(t.Context(), over); err != nil {
		t.Fatal(err)
	}
	for option, says := range map[string]string{"--follow": "job " + over + " finished", "--secrets": "the log is empty so far"} {
		k = ptytest.Start(t, s.command("logs", option, "practice", over))
		k.Expect(says)
		k.WantEnd(0)
	}
}
