//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/api"
)

func TestADemoWhoseWindowIsClosedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("this test was told to outlive its window, and so are its programs")
	}
	tmp := t.TempDir()
	runDemo(t, tmp, syscall.SIGHUP, func(*exec.Cmd) {})
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
}

func TestTheDemosHostIsTheSameInAnotherTerminal(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), os.Interrupt, func(hosts *exec.Cmd) {
		hosts.Args = append(hosts.Args, "hosts", "practice", "--json")
		out, err := hosts.Output()
		var h api.Host
		if err := errors.Join(err, json.Unmarshal(out, &h)); err != nil {
			t.Errorf("%v:\n%s", err, out)
			return
		}
		if h.User != "student" || h.Hostname != "127.0.0.1" || h.Port == 22 || h.State != api.HostUp || h.Outdated != "" {
			t.Errorf("%+v", h)
		}
	})
}

// runDemo runs a demo with its files in tmp. When it is up, other is given a command as a
// person would begin it in another terminal, and then the demo is sent end.
func runDemo(t *testing.T, tmp string, end os.Signal, other func(*exec.Cmd)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "demo", "--page", "--no-open")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "DISPLAY=", "BROWSER=", "NO_COLOR=1")
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	var home string
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if set, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "TUNCTL_HOME="); found {
			home, _, _ = strings.Cut(set, " ")
		}
		if lines.Text() == "Ctrl-C ends it." { // it is up
			next := exec.CommandContext(t.Context(), program)
			next.Env = append(os.Environ(), "TUNCTL_HOME="+home)
			other(next)
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, said.String())
	}
}
