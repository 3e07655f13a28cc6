//go:build unix

package main

import (
	"syscall"
	"testing"

	"tunctl/internal/dev/ptytest"
)

func TestCtrlCEndsACommandThatWaitsForTheAgent(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	pid := s.agentPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }() // before the sandbox ends it
	k := ptytest.Start(t, s.command("extend", "jupyter", "1h"))
	k.Expect("asking the scheduler")
	k.Type("\x03")
	k.WantEnd(exitInterrupted)
}

func TestFindPaths(t *testing.T) {
	t.Setenv("TUNCTL_HOME", t.TempDir())
	t.Setenv("TUNCTL_CONFIG", "/elsewhere.toml")
	for chosen, want := range map[string]string{"": "/elsewhere.toml", "/other.toml": "/other.toml"} {
		if p, err := findPaths(chosen); err != nil || p.Config != want || !p.Chosen {
			t.Errorf("%q leads to %+v, %v", chosen, p, err)
		}
	}
}
