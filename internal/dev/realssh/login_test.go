//go:build linux

package realssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/tunnel/failure"
)

func TestEachWayOfLoggingInWorksOnARealServer(t *testing.T) {
	lab := real.Start(t)
	for _, x := range []struct {
		name, host string
		answers    []string
		config     func(string) string
		auth       string
		asked      string // the kinds of questions, in order
		via        string
	}{
		{name: "key", host: "lab-login", auth: "publickey"},
		{name: "encrypted key", host: "lab-login", config: withKey(lab, "id_pass"), answers: []string{real.Passphrase}, auth: "publickey", asked: "passphrase"},
		{name: "certificate and host authority", host: "lab-cert", auth: "publickey"},
		{name: "password", host: "lab-pass", answers: []string{real.Password}, auth: "password", asked: "password"},
		{name: "password, mistyped once", host: "lab-pass", answers: []string{"oops", real.Password}, auth: "password", asked: "password password"},
		{name: "key then code", host: "lab-otp", answers: []string{lab.Code()}, auth: "publickey+keyboard-interactive", asked: "question"},
		{name: "password then code", host: "lab-pwotp", answers: []string{real.Password, lab.Code()}, auth: "keyboard-interactive", asked: "password question"},
		{name: "few sessions and tries", host: "lab-tight", auth: "publickey"},
		{name: "through a jump host", host: "lab-inner", auth: "publickey", via: "lab-jump"},
		{
			name: "through a command", host: "lab-inner", auth: "publickey",
			config: setting("ProxyJump", fmt.Sprintf("none\n  ProxyCommand ssh -F %s -W %%h:%%p lab-jump", lab.SSHConfig())),
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := newLaptop(t, options{answers: x.answers, config: x.config})
			s := l.mustLogin(x.host).Status()
			if s.Auth != x.auth || l.person.questions() != x.asked || strings.Join(s.Via, ",") != x.via {
				t.Errorf("logged in by %q via %q after the questions %q; want %q via %q after %q",
					s.Auth, s.Via, l.person.questions(), x.auth, x.via, x.asked)
			}
		})
	}
}

func TestARefusedLoginSaysWhatWasTried(t *testing.T) {
	lab := real.Start(t)
	used := lab.Code()
	if l := newLaptop(t, options{answers: []string{used}}); l.mustLogin("lab-otp") == nil {
		t.Fatal("no login")
	}
	for _, x := range []struct {
		name, host string
		answers    []string
		config     func(string) string
		says       string
	}{
		{name: "stranger's key", host: "lab-login", config: withKey(lab, "id_stranger"), says: "no key was accepted (ED25519 SHA256:"},
		{name: "expired certificate", host: "lab-cert", config: withKey(lab, "id_expired"), says: "the server accepts publickey"},
		{name: "wrong passwords", host: "lab-pass", answers: []string{"no", "no", "no"}, says: "tried password"},
		{name: "code used before", host: "lab-otp", answers: []string{used, used, used}, says: "the password or code was not accepted"},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := newLaptop(t, options{answers: x.answers, config: x.config})
			h, err := l.login(x.host)
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != api.CodeAuth || !strings.Contains(e.Message, x.says) {
				t.Fatalf("login says %v; want %q", err, x.says)
			}
			if s := h.Status(); s.State != api.HostBlocked {
				t.Errorf("the host is %s: %s", s.State, s.Cause)
			}
		})
	}
}

func TestAnExpiredCertificateIsNamedAsTheReason(t *testing.T) {
	lab := real.Start(t)
	l := newLaptop(t, options{config: withKey(lab, "id_expired")})
	h, err := l.login("lab-cert")
	if err == nil {
		t.Fatal("it logs in")
	}
	if all := strings.Join(h.Status().Warnings, "\n"); !strings.Contains(all, "id_expired-cert.pub") || !strings.Contains(all, "expired at") {
		t.Errorf("the warnings are %q", all)
	}
}

func TestAKeyThatOnlyAnAgentHasLogsIn(t *testing.T) {
	lab := real.Start(t)
	socket := serveAgent(t, lab.KeyFile("id_hpcuser"))
	l := newLaptop(t, options{
		env: api.Env{"SSH_AUTH_SOCK": socket},
		config: func(text string) string {
			text = setting("IdentityFile", filepath.Join(t.TempDir(), "none"))(text)
			return setting("IdentitiesOnly", "no")(text)
		},
	})
	if s := l.mustLogin("lab-login").Status(); s.Auth != "publickey" {
		t.Errorf("logged in by %q", s.Auth)
	}
}

// serveAgent is an ssh-agent that holds one key, until the test ends.
func serveAgent(t *testing.T, keyFile string) string {
	t.Helper()
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keys, c) }()
		}
	}()
	return socket
}

func TestAChangedHostKeyIsRefusedWithBothFingerprints(t *testing.T) {
	l := newLaptop(t, options{})
	l.lab.RotateHostKey("lab-login")
	_, err := l.login("lab-login")
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeHostKey || strings.Count(e.Message+e.Hint, "SHA256:") < 2 || !strings.Contains(e.Message+e.Hint, "known_hosts:") {
		t.Errorf("login says %#v", err)
	}
	l.lab.RestoreHostKey("lab-login")
	l.mustLogin("lab-login")
}

func TestARevokedHostKeyIsRefused(t *testing.T) {
	lab := real.Start(t)
	known, err := os.ReadFile(lab.KeyFile("known_hosts"))
	if err != nil {
		t.Fatal(err)
	}
	revoked := string(known)
	for line := range strings.Lines(string(known)) {
		if !strings.HasPrefix(line, "@") {
			revoked += "@revoked * " + strings.SplitN(line, " ", 2)[1]
		}
	}
	l := newLaptop(t, options{config: setting("UserKnownHostsFile", writeFile(t, "known_hosts", revoked))})
	_, err = l.login("lab-login")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeHostKey || !strings.Contains(e.Message, "revoked") {
		t.Errorf("login says %#v", err)
	}
}

func TestAnUnknownHostKeyIsAskedForAndRemembered(t *testing.T) {
	known := writeFile(t, "known_hosts", "")
	config := func(text string) string {
		text = setting("UserKnownHostsFile", known)(text)
		return setting("StrictHostKeyChecking", "ask")(text)
	}
	nobody := newLaptop(t, options{config: config})
	_, err := nobody.login("lab-login")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeNeedsPerson || !errors.Is(err, failure.ErrNobody) {
		t.Errorf("with nobody there it says %v", err)
	}
	asked := newLaptop(t, options{config: config, answers: []string{"yes"}})
	asked.mustLogin("lab-login")
	if q := asked.person.asked[0]; q.Kind != api.PromptHostKey || !strings.HasPrefix(q.Fingerprint, "SHA256:") {
		t.Errorf("it asks %+v", q)
	}
	again := newLaptop(t, options{config: config})
	again.mustLogin("lab-login")
	if q := again.person.questions(); q != "" {
		t.Errorf("it asks again: %s", q)
	}
}

func TestAHostThatForbidsForwardingSaysSo(t *testing.T) {
	l := newLaptop(t, options{})
	h := l.mustLogin("lab-tight")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := h.Dial(ctx, "tcp", l.lab.NodeAddr("cn01")+":22"); !errors.Is(err, api.ErrProhibited) {
		t.Errorf("a dial through it says %v", err)
	}
}
