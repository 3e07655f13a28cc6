//go:build linux

package realtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"tunctl/internal/lab/real"
)

// program is the built binary, made at its first use.
var program string

// desk is a person's terminal: the built program with a home of its own.
type desk struct {
	t   *testing.T
	lab *real.Lab
	env []string
	ssh string // the ssh_config
}

func newDesk(t *testing.T, config string, change func(string) string) *desk {
	t.Helper()
	lab := real.Start(t)
	if _, err := os.Stat(program); err != nil {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", program, "tunctl/cmd/tunctl").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, lab: lab, ssh: changedConfig(t, lab, change)}
	d.env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+d.ssh,
		"TUNCTL_PRACTICE=1", "SSH_AUTH_SOCK=", "DISPLAY=", "BROWSER=", "NO_COLOR=1", "TERM=xterm")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		stop := exec.CommandContext(ctx, program, "agent", "stop")
		stop.Env = d.env
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("agent stop: %v\n%s", err, out)
		}
		log, err := os.ReadFile(filepath.Join(home, "state", "agent.log"))
		if err != nil || regexp.MustCompile(`DATA RACE|panic:|`+real.Password).Match(log) || t.Failed() {
			t.Logf("the agent's log (%v):\n%s", err, log)
		}
		if regexp.MustCompile(`DATA RACE|panic:|` + real.Password).Match(log) {
			t.Error("the agent's log has what must not be there")
		}
	})
	return d
}

// talk is a program in a pseudo-terminal, and what it has said.
type talk struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	gone chan struct{}
	more chan struct{}

	mu   sync.Mutex
	said []byte
	read int // up to where expect has looked
}

func (d *desk) run(args ...string) *talk {
	d.t.Helper()
	return d.start(program, args...)
}

func (d *desk) start(name string, args ...string) *talk {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Env = d.env
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 160})
	if err != nil {
		d.t.Fatal(err)
	}
	k := &talk{t: d.t, pty: f, cmd: cmd, gone: make(chan struct{}), more: make(chan struct{}, 1)}
	go k.listen()
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-k.gone
		_ = f.Close()
	})
	return k
}

func (k *talk) listen() {
	defer close(k.gone)
	buf := make([]byte, 4096)
	for {
		n, err := k.pty.Read(buf)
		k.mu.Lock()
		k.said = append(k.said, buf[:n]...)
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// expect waits until the program says the words, after those of the last expect.
func (k *talk) expect(words string) {
	k.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for ended := false; ; {
		k.mu.Lock()
		rest := string(k.said[k.read:])
		at := strings.Index(rest, words)
		if at >= 0 {
			k.read += at + len(words)
		}
		k.mu.Unlock()
		switch {
		case at >= 0:
			return
		case ended:
			k.t.Fatalf("it never said %q, but:\n%s", words, rest)
		}
		select {
		case <-k.more:
		case <-k.gone:
			ended = true
		case <-late.C:
			k.t.Fatalf("it has not said %q, but:\n%s", words, rest)
		}
	}
}

func (k *talk) answer(line string) {
	k.t.Helper()
	if _, err := k.pty.WriteString(line + "\n"); err != nil {
		k.t.Fatal(err)
	}
}

// answerHidden answers once the terminal shows no more what is typed.
func (k *talk) answerHidden(line string) {
	k.t.Helper()
	late := time.After(patience)
	for {
		mode, err := unix.IoctlGetTermios(int(k.pty.Fd()), unix.TCGETS)
		if err != nil {
			k.t.Fatal(err)
		}
		if mode.Lflag&unix.ECHO == 0 {
			k.answer(line)
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			k.t.Fatal("what is typed is shown")
		}
	}
}

// end waits for the program, and returns its exit code and all it said.
func (k *talk) end() (code int, said string) {
	k.t.Helper()
	select {
	case <-k.gone:
	case <-time.After(patience):
		k.t.Fatalf("it does not end; it said:\n%s", k.said)
	}
	_ = k.cmd.Wait() // its code says it all
	return k.cmd.ProcessState.ExitCode(), string(k.said)
}

// tunnelTo is a config with a session that is a forward over a host.
func tunnelTo(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return fmt.Sprintf("[session.tunnel]\nhost = %q\nforward = [\"%d:localhost:22\"]\n", host, l.Addr().(*net.TCPAddr).Port)
}

func TestACodeIsAskedForAtTheTerminalOnce(t *testing.T) {
	d := newDesk(t, tunnelTo(t, "lab-otp"), nil)
	first := d.run("login", "lab-otp")
	first.expect("lab-otp: One-time password")
	code := d.lab.Code()
	first.answerHidden(code)
	first.expect("connected to lab-otp")
	status, said := first.end()
	if status != 0 || strings.Contains(said, code) {
		t.Errorf("exit code %d, or the code is to be seen:\n%s", status, said)
	}
	second := d.run("up", "tunnel", "--no-open")
	if status, said := second.end(); status != 0 || strings.Contains(said, "One-time") {
		t.Errorf("up after the login: exit code %d:\n%s", status, said)
	}
}

func TestUpAsksForPasswordAndCodeAtTheTerminal(t *testing.T) {
	d := newDesk(t, tunnelTo(t, "lab-pwotp"), nil)
	k := d.run("up", "tunnel", "--no-open")
	k.expect("lab-pwotp: Password:")
	k.answerHidden(real.Password)
	k.expect("One-time password")
	k.answerHidden(d.lab.Code())
	if status, said := k.end(); status != 0 || strings.Contains(said, real.Password) {
		t.Errorf("exit code %d:\n%s", status, said)
	}
}

func TestAnUnknownHostIsAskedAboutWithItsFingerprint(t *testing.T) {
	known := writeFile(t, "known_hosts", "")
	d := newDesk(t, "", func(text string) string {
		return setting("StrictHostKeyChecking", "ask")(setting("UserKnownHostsFile", known)(text))
	})
	no := d.run("login", "lab-login")
	no.expect("SHA256:")
	no.expect("Type yes to go on, no to stop:")
	no.answer("no")
	if status, said := no.end(); status != 3 {
		t.Errorf("after no: exit code %d:\n%s", status, said)
	}
	yes := d.run("login", "lab-login")
	yes.expect("Type yes to go on, no to stop:")
	yes.answer("yes")
	yes.expect("connected to lab-login")
	if status, said := yes.end(); status != 0 {
		t.Errorf("after yes: exit code %d:\n%s", status, said)
	}
	if text, err := os.ReadFile(known); err != nil || !strings.Contains(string(text), "ssh-ed25519 ") {
		t.Errorf("known_hosts is %q, %v", text, err)
	}
}

func TestWithoutATerminalALoginThatAsksEndsWithThree(t *testing.T) {
	d := newDesk(t, "", nil)
	cmd := exec.CommandContext(t.Context(), program, "login", "lab-otp")
	cmd.Env = d.env
	out, _ := cmd.CombinedOutput() // the exit code is what counts
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out), "One-time") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
