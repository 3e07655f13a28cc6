//go:build unix

package main

import (
	"bufio"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/ptytest"
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

func TestAKeyLeavesTheWatch(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	for keys, want := range map[string]int{"q": 0, "xQ": 0, "\x03": exitInterrupted} {
		k := ptytest.Start(t, s.command("status", "--watch"))
		k.Expect("q quits; sessions stay up")
		k.Type(keys)
		code, said := k.End()
		if code != want {
			t.Errorf("after %q: exit code %d, want %d:\n%s", keys, code, want, said)
		}
		if !strings.HasSuffix(strings.TrimSpace(said), "\x1b[?25h\x1b[?1049l") {
			t.Errorf("after %q the screen is not put back:\n%q", keys, said)
		}
	}
	s.run("agent", "status") // it stays
}
