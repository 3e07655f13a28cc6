//go:build unix

package main

import (
	"bufio"
	"encoding/json"
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
	runDemo(t, t.TempDir(), syscall.SIGHUP, func(string) {})
}

func TestTheDemosHostIsTheSameInAnotherTerminal(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) {
		out := paste(t, inDemo(said, "hosts practice --json"))
		var h api.Host
		if err := json.Unmarshal(out, &h); err != nil {
			t.Errorf("%v:\n%s", err, out)
			return
		}
		if h.User != "student" || h.Hostname != "127.0.0.1" || h.Port == 22 || h.State != api.HostUp || h.Outdated != "" {
			t.Errorf("%+v", h)
		}
	})
}

func TestWhatTheDemoTellsToTypeWorksInAnotherTerminal(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("", "it's ") // no plain word for a shell, and short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	runDemo(t, tmp, syscall.SIGINT, func(said string) {
		_, after, _ := strings.Cut(said, "no browser found; `")
		open, _, _ := strings.Cut(after, "` shows the full address")
		if address := paste(t, open); !strings.Contains(string(address), "token=") {
			t.Errorf("%q prints %q", open, address)
		}
	})
}

func TestADemoWhoseAgentWasStoppedEndsQuietly(t *testing.T) {
	t.Parallel()
	said := runDemo(t, t.TempDir(), syscall.SIGINT, func(said string) { paste(t, inDemo(said, "agent stop")) })
	if strings.Contains(said, "error") {
		t.Errorf("it says:\n%s", said)
	}
}

// inDemo is the command that the demo shows for another terminal.
func inDemo(said, words string) string {
	_, after, _ := strings.Cut(said, "from another terminal:\n\n  ")
	program, _, _ := strings.Cut(after, " status\n")
	return program + " " + words
}

// paste runs a line in another terminal, in another folder.
func paste(t *testing.T, line string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return out
}

// runDemo runs a demo with its files in tmp. When it is up, it calls other with the demo's
// messages, and then ends the demo, with another signal while it ends. It returns all messages;
// nothing is left behind.
func runDemo(t *testing.T, tmp string, end syscall.Signal, other func(said string)) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "demo", "--page")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "DISPLAY=", "WAYLAND_DISPLAY=", "BROWSER=", "NO_COLOR=1")
	talk, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(talk); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		switch line := lines.Text(); {
		case line == "Ctrl-C ends it.": // it is up
			other(said.String())
		case !strings.HasPrefix(line, "ending the demo"):
			continue
		}
		if err := cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, said.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
	return said.String()
}
