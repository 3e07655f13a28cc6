//go:build unix

package main

import (
	"os"
	"testing"

	"tunctl/internal/dev/ptytest"
)

// TestShellLost: a shell that ends with its job or with the agent says so, on a line of its own.
func TestShellLost(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, c := range []struct {
		end       func()
		why, hint string
	}{
		{func() { s.run("cancel", "practice", "1001", "--yes") }, "job 1001 ", "`tunctl up jupyter` starts a new one"},
		{func() { s.run("agent", "stop") }, "the agent was stopped or restarted", "the job keeps running: `tunctl up jupyter`"},
		{func() { s.killAgent(os.Kill) }, "the agent was stopped or restarted", "the job keeps running: `tunctl up jupyter`"},
	} {
		s.run("up", "jupyter", "--no-open")
		shell := ptytest.Start(t, s.command("ssh", "jupyter"))
		shell.Answer("echo in$((1+1))")
		shell.Expect("in2")
		c.end()
		shell.Expect("\r\ntunctl: error: the connection to jupyter ended: " + c.why)
		shell.Expect("tunctl: hint: " + c.hint)
		shell.WantEnd(exitConnectionFailed)
	}
}
