//go:build unix

package main

import (
	"bufio"
	"syscall"
	"testing"
)

func TestAWatchThatIsAskedToEndIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	cmd := s.command("status", "--watch")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("it showed nothing")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to its end
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}
