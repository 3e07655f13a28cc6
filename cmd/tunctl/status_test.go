//go:build unix

package main

import (
	"bufio"
	"encoding/base64"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/wait"
)

func TestWatchTerminated(t *testing.T) {
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
	if first := lines.Text(); first != "SESSION  HOST      STATE  JOB  LEFT  TRAFFIC" {
		t.Errorf("not the plain table: %q", first)
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

// watch starts the screen in a terminal of some size.
func (s *sandbox) watch(columns, rows int, args ...string) *ptytest.Program {
	s.t.Helper()
	cmd := s.command(append([]string{"status", "--watch"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=")
	return ptytest.StartSized(s.t, cmd, columns, rows)
}

func TestWatchRestoresTerminal(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	for _, end := range []struct {
		how  string
		want int
		do   func(*ptytest.Program)
	}{
		{"q", 0, func(k *ptytest.Program) { k.Type("q") }},
		{"Q after a key without a meaning", 0, func(k *ptytest.Program) { k.Type("xQ") }},
		{"Ctrl-C", exitInterrupted, func(k *ptytest.Program) { k.Type("\x03") }},
		{"SIGTERM", exitInterrupted, func(k *ptytest.Program) { k.Signal(syscall.SIGTERM) }},
		{"SIGINT", exitInterrupted, func(k *ptytest.Program) { k.Signal(syscall.SIGINT) }},
	} {
		k := s.watch(80, 24)
		k.ExpectScreen("q quit")
		end.do(k)
		code, said := k.End()
		if code != end.want {
			t.Errorf("after %s: exit code %d, want %d:\n%s", end.how, code, end.want, said)
		}
		left, shown := strings.LastIndex(said, "\x1b[?1049l"), strings.LastIndex(said, "\x1b[?25h")
		if left < strings.LastIndex(said, "\x1b[?1049h") || shown < strings.LastIndex(said, "\x1b[?25l") {
			t.Errorf("after %s the screen is not put back:\n%q", end.how, said)
		}
		if !strings.Contains(said, "\x1b[?1007h") || strings.LastIndex(said, "\x1b[?1007r") < strings.LastIndex(said, "\x1b[?1007h") {
			t.Errorf("after %s the mouse wheel is not as before:\n%q", end.how, said)
		}
	}
	s.run("agent", "status") // it stays
}

func TestWatchDumbTerminal(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	cmd := s.command("status", "--watch")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	k := ptytest.Start(t, cmd)
	k.Expect("SESSION")
	k.Type("\x03")
	code, said := k.End()
	if code != exitInterrupted || strings.Contains(said, "\x1b") {
		t.Errorf("exit code %d:\n%q", code, said)
	}
}

func TestWatchWithoutAgent(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	k := s.watch(80, 24)
	code, said := k.End()
	if code == 0 || strings.Contains(said, "\x1b[?1049h") || !strings.Contains(said, "not running") {
		t.Errorf("exit code %d:\n%q", code, said)
	}
}

func TestWatchOneSession(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.setConfig(sandboxConfig + "[session.other]\nhost = \"practice\"\nforward = [\"0:localhost:22\"]\n")
	s.run("agent", "start")
	all, one := s.watch(80, 24), s.watch(80, 24, "jupyter")
	all.ExpectScreen("other")
	if screen := one.ExpectScreen("jupyter"); strings.Contains(screen, "other") {
		t.Errorf("the other one is there:\n%s", screen)
	}
	for _, k := range []*ptytest.Program{all, one} {
		k.Type("q")
		k.WantEnd(0)
	}
}

func TestWatchSuspended(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.run("agent", "start")
	cmd := s.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `set -m; "$0" status --watch; echo "stopped with $?"; fg >/dev/null; echo "ended with $?"`, program}
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	k := ptytest.StartSized(t, cmd, 80, 24)
	k.ExpectScreen("q quit")
	k.Type("\x1a")
	k.Expect("stopped with")
	k.ExpectScreen("q quit")
	k.Type("q")
	k.Expect("ended with 0")
	k.End()
	alone := s.watch(80, 24) // no shell could continue it, so it goes on
	alone.ExpectScreen("q quit")
	alone.Type("\x1a?")
	alone.ExpectScreen("ask for more time")
	alone.Type("q")
	alone.WantEnd(0)
}

func TestWatchKeys(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.cluster.AllowExtend(true)
	s.run("agent", "start")
	k := s.watch(80, 24)
	k.ExpectScreen("  down  ")
	k.Type("u")
	k.ExpectScreen("ready")

	k.Type("e")
	k.ExpectScreen("How much longer")
	k.Type("soon\r")
	k.ExpectScreen(`"soon" is not a time`)
	k.Type("2h\r") // it asks again
	k.ExpectScreen("runs until")

	k.Type("o") // there is no browser here
	k.ExpectScreen("no browser found")
	k.Type("y") // and no desktop: the terminal is asked
	k.Expect("\x1b]52;c;")
	link, err := base64.StdEncoding.DecodeString(k.Between("", "\x07"))
	if err != nil || !strings.Contains(string(link), "token=") {
		t.Errorf("copied %q, %v", link, err)
	}

	k.Type("2")
	k.ExpectScreen("jupyterlab")
	k.Type("/nothing\r")
	k.ExpectScreen("nothing here contains nothing")
	k.Type("\x1b")
	k.ExpectScreen("until")
	k.Type("4")
	k.ExpectScreen("student@")
	k.Type("\r")
	k.ExpectScreen("login method")
	k.Type("L") // it is connected already
	k.ExpectScreen("connected to practice")
	k.Type("1l")
	screen := k.ExpectScreen("token=•••")
	if !strings.Contains(screen, "log of jupyter") {
		t.Errorf("whose log is it?\n%s", screen)
	}
	k.Type("1d")
	k.ExpectScreen("jupyter is disconnected; job 1001 keeps running") // the answer, which must not overwrite what comes next
	s.run("agent", "stop")
	k.ExpectScreen("the agent has stopped; waiting for the next one")
	s.run("agent", "start")
	k.ExpectScreen("the agent runs again")
	k.ExpectScreen("practice  disconnected") // the status comes later than that, and what u does must not overwrite what c says
	k.Type("u")
	k.ExpectScreen("practice  ready")
	k.Type("cn")
	k.ExpectScreen("nothing was cancelled; job 1001 keeps running and is charged until ")
	if len(s.live()) != 1 {
		t.Error("the job is gone")
	}
	k.Type("cy")
	k.ExpectScreen("job 1001 was cancelled")
	wait.Until(t, "the job has ended", func() bool { return len(s.live()) == 0 })
	k.Type("?")
	k.ExpectScreen("show only what contains a text")
	k.Type("q")
	k.WantEnd(0)
}

func TestWatchLogin(t *testing.T) {
	t.Parallel()
	const link = "https://iam.example.org/device?user_code=ABCD"
	s, _, _ := deviceLogin(t, link)
	s.setConfig("[host.device]\nsite = \"device\"\n\n[session.db]\nhost = \"device\"\nforward = [\"0:localhost:5432\"]\n")
	s.run("agent", "start")
	k := s.watch(80, 24)
	k.ExpectScreen("db")
	k.Type("L")
	k.Expect("logging in to device; Ctrl-C goes back")
	k.Expect(link)
	k.Type("\x03") // only the login ends
	k.ExpectScreen("the login was interrupted")
	k.Type("L")
	k.Expect("logging in to device")
	k.Reply("Open this page", "n")
	k.Reply("press ENTER.", "")
	k.ExpectScreen("connected to device")
	k.Type("q")
	k.WantEnd(0)
}
