//go:build linux

package realssh

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/testprogram"
)

// desk is the user's terminal: the built program with a home of its own.
type desk struct {
	t    *testing.T
	lab  *real.Lab
	home string
	env  []string
	ssh  string     // the ssh_config
	bus  *dbus.Conn // of its keyring
}

func newDesk(t *testing.T, config string, change func(string) string) *desk {
	t.Helper()
	lab := real.Start(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, lab: lab, home: home, ssh: changedConfig(t, lab, change)}
	d.env = append(os.Environ(), "TUNCTL_HOME="+home, "TUNCTL_CONFIG=", "TUNCTL_SSH_CONFIG="+d.ssh,
		"TUNCTL_PRACTICE=1", "SSH_AUTH_SOCK=", "DISPLAY=", "BROWSER=", "NO_COLOR=1", "TERM=xterm")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		stop := exec.CommandContext(ctx, testprogram.Path(), "agent", "stop")
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

// run runs tunctl in a terminal.
func (d *desk) run(args ...string) *ptytest.Program {
	d.t.Helper()
	return d.start(testprogram.Path(), args...)
}

func (d *desk) start(name string, args ...string) *ptytest.Program {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Env = d.env
	return ptytest.Start(d.t, cmd)
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
	first.Expect("lab-otp: One-time password")
	code := d.lab.Code()
	first.AnswerHidden(code)
	first.Expect("connected to lab-otp")
	status, said := first.End()
	if status != 0 || strings.Contains(said, code) {
		t.Errorf("exit code %d, or the code is to be seen:\n%s", status, said)
	}
	second := d.run("up", "tunnel", "--no-open")
	if status, said := second.End(); status != 0 || strings.Contains(said, "One-time") {
		t.Errorf("up after the login: exit code %d:\n%s", status, said)
	}
}

func TestAnUnknownHostIsAskedAboutWithItsFingerprint(t *testing.T) {
	known := writeFile(t, "known_hosts", "")
	d := newDesk(t, "", func(text string) string {
		return setting("StrictHostKeyChecking", "ask")(setting("UserKnownHostsFile", known)(text))
	})
	no := d.run("login", "lab-login")
	no.Expect("SHA256:")
	no.Expect("Type yes to continue, no to stop:")
	no.Answer("no")
	if status, said := no.End(); status != 3 || !strings.Contains(said, "you did not accept the host key") {
		t.Errorf("after no: exit code %d:\n%s", status, said)
	}
	yes := d.run("login", "lab-login")
	yes.Expect("Type yes to continue, no to stop:")
	yes.Answer("yes")
	yes.Expect("connected to lab-login")
	if status, said := yes.End(); status != 0 {
		t.Errorf("after yes: exit code %d:\n%s", status, said)
	}
	if text, err := os.ReadFile(known); err != nil || !strings.Contains(string(text), "ssh-ed25519 ") {
		t.Errorf("known_hosts is %q, %v", text, err)
	}
}

func TestAQuestionIsAskedInTheTerminalThatCausedIt(t *testing.T) {
	d := newDesk(t, tunnelTo(t, "lab-pass"), nil)
	up := d.run("up", "tunnel", "--no-open")
	up.Expect("password:")
	login := d.run("login", "lab-pass")
	login.Expect("lab-pass: waiting for the login in another window")
	other := d.run("login", "lab-otp")
	other.Expect("lab-otp: One-time password")

	up.AnswerHidden("wrong")
	up.Expect("lab-pass: that was not right; 2 more tries before tunctl stops")
	up.Expect("password:")
	up.AnswerHidden(real.Password)
	login.Expect("connected to lab-pass")
	other.AnswerHidden(d.lab.Code())
	for k, alien := range map[*ptytest.Program]string{up: "One-time", login: "password:", other: "lab-pass"} {
		if status, said := k.End(); status != 0 || strings.Contains(said, alien) {
			t.Errorf("exit code %d, or asked for another's login:\n%s", status, said)
		}
	}
}

func TestAQuestionThatIsNotNeededAnyMoreDisappears(t *testing.T) {
	d := newDesk(t, tunnelTo(t, "lab-pass"), nil)
	up := d.run("up", "tunnel", "--no-open")
	up.Expect("password:")
	up.Type("half of it")
	out := exec.CommandContext(t.Context(), testprogram.Path(), "logout", "lab-pass")
	out.Env = d.env
	if text, err := out.CombinedOutput(); err != nil {
		t.Fatalf("logout: %v\n%s", err, text)
	}
	up.Expect("you logged out of lab-pass") // without another key
	if status, said := up.End(); status != 3 {
		t.Errorf("exit code %d:\n%s", status, said)
	}
}
