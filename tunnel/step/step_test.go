//go:build linux

package step

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longest bounds every wait; none is meant to take it.
const longest = wait.Limit

// idle is a command that does nothing until these tests are over, however they end.
var idle = fmt.Sprintf("tail --pid=%d -f /dev/null", os.Getpid())

// process is a process that runs Command, and its standard input and output.
type process struct {
	io.Reader
	io.WriteCloser
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  func() error
}

// Close ends its input, as the end of an SSH connection does.
func (p *process) Close() error { return p.WriteCloser.Close() }

// newProcess starts a process that runs Command.
func newProcess(t testing.TB, env ...string) *process {
	t.Helper()
	testprogram.Need(t, "python3")
	return newShell(t, Command(), env...)
}

func newShell(t testing.TB, command string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("sh", "-c", command), stderr: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.stderr
	var err error
	if p.WriteCloser, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Reader, p.cmd.Stdout = out, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	p.ended = sync.OnceValue(p.cmd.Wait)
	t.Cleanup(func() {
		_ = p.Close()
		late := time.AfterFunc(longest, func() { _ = p.cmd.Process.Kill() })
		defer late.Stop()
		err := p.ended()
		_ = out.Close()
		if t.Failed() {
			t.Logf("the relay ended: %v, stderr %q", err, p.stderr)
		}
	})
	return p
}

// newConn is a running relay.
func newConn(t testing.TB, o Options, env ...string) *Conn {
	t.Helper()
	p := newProcess(t, env...)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	c, err := Start(ctx, p, o)
	if err != nil {
		t.Fatalf("%v; stderr %q", err, p.stderr)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := p.ended(); err != nil || p.stderr.Len() > 0 {
			t.Errorf("the relay ended: %v, stderr %q", err, p.stderr)
		}
	})
	return c
}

// program is a session channel with its exit.
type program struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

func newSession(t testing.TB, c *Conn) *program {
	t.Helper()
	ch, requests, err := c.OpenChannel(t.Context(), "session", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &program{ch, requests}
}

func (p *program) must(t testing.TB, request string, payload any) {
	t.Helper()
	var encoded []byte
	if payload != nil {
		encoded = ssh.Marshal(payload)
	}
	if ok, err := p.SendRequest(request, true, encoded); !ok || err != nil {
		t.Fatalf("%s: %v, %v", request, ok, err)
	}
}

type text struct{ Text string }

type ptyRequest struct {
	Term                         string
	Columns, Rows, Width, Height uint32
	Modes                        string
}

// run starts a command.
func run(t testing.TB, c *Conn, command string) *program {
	t.Helper()
	p := newSession(t, c)
	p.must(t, "exec", text{command})
	return p
}

// exit is how the program ended, in words.
func (p *program) exit(t testing.TB) string {
	t.Helper()
	said := ""
	for {
		select {
		case r, ok := <-p.requests:
			if !ok {
				return said
			}
			switch r.Type {
			case "exit-status":
				said = fmt.Sprint("status ", r.Payload[3])
			case "exit-signal":
				var s struct {
					Name string
					Core bool
					Rest []byte `ssh:"rest"`
				}
				if err := ssh.Unmarshal(r.Payload, &s); err != nil {
					t.Fatal(err)
				}
				said = "signal " + s.Name
			}
		case <-time.After(longest):
			t.Fatal("the program does not end")
		}
	}
}

// output runs a command without input, and returns what it printed and how it ended.
func output(t testing.TB, c *Conn, command string) (out, aside, exit string) {
	t.Helper()
	p := run(t, c, command)
	_ = p.CloseWrite()
	out, aside = p.all(t)
	return out, aside, p.exit(t)
}

func (p *program) all(t testing.TB) (out, aside string) {
	t.Helper()
	late := time.AfterFunc(longest, func() { _ = p.Close() })
	defer late.Stop()
	var wg sync.WaitGroup
	var b []byte
	wg.Go(func() { b, _ = io.ReadAll(p.Stderr()) })
	a, err := io.ReadAll(p)
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	return string(a), string(b)
}

// readUntil reads until what was read ends with words.
func readUntil(t testing.TB, r io.ReadCloser, words string) string {
	t.Helper()
	late := time.AfterFunc(longest, func() { _ = r.Close() })
	defer late.Stop()
	var said strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), words) {
		n, err := r.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v after %q, without %q", err, said.String(), words)
		}
	}
	return said.String()
}

// channelsOf is how many channels are open.
func channelsOf(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.channels)
}

func TestACommandsOutputsAndExitAreExact(t *testing.T) {
	c := newConn(t, Options{})
	for _, test := range []struct{ command, out, aside, exit string }{
		{"true", "", "", "status 0"},
		{"echo out; echo err >&2; exit 7", "out\n", "err\n", "status 7"},
		{`printf '\000\001\r\n\377'`, "\x00\x01\r\n\xff", "", "status 0"},
		{"kill -TERM $$", "", "", "signal TERM"},
		{"kill -KILL $$", "", "", "signal KILL"},
		{"kill -BUS $$", "", "", "signal SIG@openssh.com"},
		{"cat", "", "", "status 0"},
		{"[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none", "none\n", "", "status 0"},
		{"echo 'it''s \xe9'", "it's \xe9\n", "", "status 0"},
	} {
		out, aside, exit := output(t, c, test.command)
		if out != test.out && !strings.HasPrefix(test.command, "echo 'it") || aside != test.aside || exit != test.exit {
			t.Errorf("%q: %q, %q, %s", test.command, out, aside, exit)
		}
	}
	if n := channelsOf(c); n != 0 {
		t.Errorf("%d channels are open", n)
	}
}

func TestFiftyMegabytesPassBothWaysUnchanged(t *testing.T) {
	c := newConn(t, Options{})
	input := make([]byte, 50<<20)
	_, _ = rand.Read(input)
	p := run(t, c, "cat")
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Write(input); err != nil {
			t.Error(err)
		}
		_ = p.CloseWrite()
	})
	out, err := io.ReadAll(p)
	wg.Wait()
	if err != nil || !bytes.Equal(out, input) {
		t.Errorf("%d bytes: %v", len(out), err)
	}
	if exit := p.exit(t); exit != "status 0" {
		t.Error(exit)
	}
}

func TestAPartialLineArrivesAtOnce(t *testing.T) {
	c := newConn(t, Options{})
	p := run(t, c, "printf 'name: '; read -r name; echo hello $name")
	readUntil(t, p, "name: ")
	fmt.Fprintln(p, "you")
	readUntil(t, p, "hello you\n")
	if exit := p.exit(t); exit != "status 0" {
		t.Error(exit)
	}
}

func TestATerminalHasSizeModesAndSignals(t *testing.T) {
	c := newConn(t, Options{})
	p := newSession(t, c)
	p.must(t, "pty-req", ptyRequest{Term: "xterm-test", Columns: 80, Rows: 33, Modes: "\x35\x00\x00\x00\x00\x00"}) // ECHO off
	p.must(t, "window-change", struct{ Columns, Rows, Width, Height uint32 }{91, 33, 0, 0})
	p.must(t, "exec", text{`[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo $TERM $(stty size) $(stty -a | grep -o -- '-echo\b'); ` +
		`until [ "$(stty size)" = "40 100" ]; do sleep 0.1; done; trap "echo interrupted; exit 3" INT; echo ready; while :; do sleep 0.1; done`})
	readUntil(t, p, "xterm-test 33 91 -echo\r\n")
	p.must(t, "window-change", struct{ Columns, Rows, Width, Height uint32 }{100, 40, 0, 0})
	readUntil(t, p, "ready")
	fmt.Fprint(p, "\x03")
	readUntil(t, p, "interrupted")
	_, _ = io.Copy(io.Discard, p)
	if exit := p.exit(t); exit != "status 3" {
		t.Error(exit)
	}
}

func TestAShellInATerminalHasJobControl(t *testing.T) {
	c := newConn(t, Options{}, "HISTFILE=/dev/null")
	p := newSession(t, c)
	p.must(t, "pty-req", ptyRequest{Term: "dumb", Columns: 200, Rows: 33})
	p.must(t, "shell", nil)
	fmt.Fprint(p, "PS1=; sh -c 'echo rea\"\"dy; exec "+idle+"'\n")
	readUntil(t, p, "ready\r\n")
	fmt.Fprint(p, "\x1a")
	readUntil(t, p, "Stopped")
	fmt.Fprint(p, "exit 9\n")
	readUntil(t, p, "stopped jobs")
	fmt.Fprint(p, "exit 9\n")
	if exit := p.exit(t); exit != "status 9" {
		t.Error(exit)
	}
}

func TestAProgramInTheBackgroundDoesNotKeepATerminalOpen(t *testing.T) {
	c := newConn(t, Options{})
	p := newSession(t, c)
	p.must(t, "pty-req", ptyRequest{Term: "dumb"})
	p.must(t, "exec", text{idle + " & echo $!; seq 200000; exit 8"})
	out, _ := p.all(t)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitAfter(out, "\n")[0]))
	if err != nil || !strings.HasSuffix(out, "\r\n199999\r\n200000\r\n") {
		t.Errorf("%v, %d bytes, the last %q", err, len(out), out[max(0, len(out)-20):])
	}
	if exit := p.exit(t); exit != "status 8" {
		t.Error(exit)
	}
	awaitEnd(t, pid) // by the hangup
}

func TestASignalReachesTheProgram(t *testing.T) {
	c := newConn(t, Options{})
	p := run(t, c, "trap 'echo got it; exit 6' USR1; echo ready; while :; do sleep 0.1; done")
	readUntil(t, p, "ready\n")
	p.must(t, "signal", text{"USR1"})
	readUntil(t, p, "got it\n")
	if exit := p.exit(t); exit != "status 6" {
		t.Error(exit)
	}
}

func TestAProgramWhoseOutputNobodyWantsGetsSIGPIPE(t *testing.T) {
	c := newConn(t, Options{})
	p := run(t, c, "exec yes") // some shells would start it and report its end as their own status
	readUntil(t, p, "y\n")
	p.must(t, "eow@openssh.com", nil)
	go func() { _, _ = io.Copy(io.Discard, p) }()
	if exit := p.exit(t); exit != "signal PIPE" {
		t.Error(exit)
	}
}

func TestAShellIsALoginShellAtHome(t *testing.T) {
	c := newConn(t, Options{})
	p := newSession(t, c)
	p.must(t, "shell", nil)
	fmt.Fprintln(p, `echo "$0 $PWD $HOME"; exit 5`)
	out, _ := p.all(t)
	home, _ := os.UserHomeDir()
	want := regexp.MustCompile(`(?m)^-\w+ ` + regexp.QuoteMeta(home+" "+home) + `$`) // whichever shell it is
	if !want.MatchString(out) {
		t.Errorf("%q, not %q", out, want)
	}
	if exit := p.exit(t); exit != "status 5" {
		t.Error(exit)
	}
}

func TestErrorsOfAMissingPythonAreClear(t *testing.T) {
	p := newShell(t, "PATH=/nowhere; "+strings.ReplaceAll(Command(), "/usr/", "/nowhere/"))
	_, err := Start(t.Context(), p, Options{})
	if !errors.Is(err, errNoWelcome) {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := p.ended(); !errors.As(err, &exit) || exit.ExitCode() != 127 || !strings.Contains(p.stderr.String(), "python3 is not installed") {
		t.Errorf("%v, %q", err, p.stderr)
	}
}
