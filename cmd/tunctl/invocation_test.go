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
