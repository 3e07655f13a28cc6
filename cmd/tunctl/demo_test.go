//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
	"tunctl/internal/posixsh"
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
		_, after, _ := strings.Cut(said, "no browser found; `tunctl ")
		open, _, _ := strings.Cut(after, "` shows the full address")
		if address := paste(t, inDemo(said, open)); !strings.Contains(string(address), "token=") {
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

func TestDemoAgentStaysConfined(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) {
		refused := func(after string) {
			if out := paste(t, inDemo(said, "login elsewhere@nowhere.example 2>&1 || true")); !strings.Contains(string(out), "the host practice only") {
				t.Errorf("after %s: %s", after, out)
			}
		}
		paste(t, inDemo(said, "agent restart"))
		refused("a restart")
		paste(t, "kill -9 "+agentOf(t, said))
		paste(t, inDemo(said, "up --no-open"))
		refused("the agent was killed")
	})
}

func TestDemoCompletion(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) {
		if out := string(paste(t, inDemo(said, "ssh --generate-bash-completion"))); !strings.Contains(out, "practice") || strings.Contains(out, "cn0") {
			t.Errorf("after ssh it offers\n%s", out)
		}
	})
}

func TestDemoForwardToNothing(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) {
		port := strconv.Itoa(testport.Free(t))
		address := strings.TrimSpace(string(paste(t, inDemo(said, "forward jupyter "+port))))
		if res, err := (&http.Client{Timeout: patience}).Get("http://" + address); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s answers %s", address, res.Status)
		}
		want := "! the last connection, at .* could not connect to localhost:" + port + ": Connection refused\n"
		if out := paste(t, inDemo(said, "status jupyter")); !regexp.MustCompile(want).Match(out) {
			t.Errorf("status says:\n%s", out)
		}
	})
}

func TestDemoJobIsExtended(t *testing.T) {
	t.Parallel()
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) { paste(t, inDemo(said, "extend jupyter 1h")) })
}

func TestDemoIsFound(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	runDemo(t, tmp, syscall.SIGTERM, func(said string) {
		for _, command := range []string{"status", "open jupyter", "up"} {
			out := string(paste(t, "HOME=$PWD XDG_CONFIG_HOME= XDG_STATE_HOME= XDG_RUNTIME_DIR= TUNCTL_HOME= TMPDIR="+posixsh.Quote(tmp)+" "+posixsh.Quote(program)+" "+command+" 2>&1 || true"))
			_, after, _ := strings.Cut(out, "a practice cluster is running: `")
			enter, _, _ := strings.Cut(after, "`")
			if !strings.HasPrefix(inDemo(said, ""), enter) || enter == "" {
				t.Errorf("%s says:\n%s", command, out)
			}
		}
	})
}

func TestDemoEnd(t *testing.T) {
	t.Parallel()
	var watch *exec.Cmd
	var seen strings.Builder
	runDemo(t, t.TempDir(), syscall.SIGTERM, func(said string) {
		watch = exec.CommandContext(t.Context(), "sh", "-c", inDemo(said, "status --watch"))
		watch.Stderr = &seen
		out, err := watch.StdoutPipe()
		if err == nil {
			err = watch.Start()
		}
		if err != nil || !waitForWords(out, []string{"jupyter", "ready"}) {
			t.Errorf("status --watch: %v\n%s", err, seen.String())
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
	})
	if err := watch.Wait(); err == nil || !strings.Contains(seen.String(), "the demo has ended") {
		t.Errorf("%v:\n%s", err, seen.String())
	}
}

// agentOf is the process of the demo's agent.
func agentOf(t *testing.T, said string) string {
	t.Helper()
	var a api.Agent
	if err := json.Unmarshal(paste(t, inDemo(said, "agent status --json")), &a); err != nil {
		t.Error(err)
	}
	return strconv.Itoa(a.PID)
}

// inDemo is the command that the demo shows for another terminal.
func inDemo(said, words string) string {
	_, after, _ := strings.Cut(said, "into another terminal:\n\n  ")
	enter, _, _ := strings.Cut(after, "\n\nThen ")
	return enter + "\ntunctl " + words
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
