//go:build linux

package realssh

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
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
		{name: "expired certificate", host: "lab-cert", config: withKey(lab, "id_expired"), says: "no key was accepted"},
		{name: "wrong passwords", host: "lab-pass", answers: []string{"no", "no", "no"}, says: "the password or code was not accepted"},
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
