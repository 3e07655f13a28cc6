//go:build linux

package realssh

import (
	"regexp"
	"strings"
	"testing"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// withChain adds hosts behind two jump hosts: lab-deep, which takes a key, and
// lab-deeper, which wants a code, too.
func withChain(text string) string {
	behind := func(alias, like string) string {
		host := regexp.MustCompile(`(?m)^Host ` + like + "\n  HostName .*\n  Port .*\n").FindString(text)
		return strings.Replace(host, like, alias, 1) + "  ProxyJump lab-jump,lab-inner\n"
	}
	return behind("lab-deep", "lab-login") + behind("lab-deeper", "lab-otp") + text
}

func TestAChainOfJumpHostsIsPassedHopByHop(t *testing.T) {
	lab := real.Start(t)
	l := newLaptop(t, options{
		answers: []string{real.Passphrase, lab.Code()},
		config: func(text string) string { // each hop by its own: the second has a locked key
			own := "Host lab-inner\n  IdentityFile " + lab.KeyFile("id_pass") + "\n"
			return own + withChain(text)
		},
	})
	h := l.mustLogin("lab-deeper")
	s := h.Status()
	if via := strings.Join(s.Via, ","); via != "lab-jump,lab-inner" || s.Auth != "publickey+keyboard-interactive" {
		t.Errorf("logged in by %q via %q", s.Auth, via)
	}
	if q := l.person.questions(); q != "passphrase question" {
		t.Errorf("asked %q", q)
	}
	first := l.Host("lab-jump").Status().Since
	l.mustLogin("lab-deep")
	h.Down()
	for _, alias := range []string{"lab-jump", "lab-jump,lab-inner"} {
		if hop := l.Host(alias).Status(); hop.State != api.HostUp || hop.Auth != "publickey" {
			t.Errorf("%s, which lab-deep goes through, is %s by %q", alias, hop.State, hop.Auth)
		}
	}
	if again := l.Host("lab-jump").Status().Since; !again.Equal(first) {
		t.Errorf("the first hop was logged in to twice")
	}
}

func TestAChangedKeyOfASecondHopIsRefused(t *testing.T) {
	l := newLaptop(t, options{config: withChain})
	l.lab.RotateHostKey("lab-inner")
	_, err := l.login("lab-deep")
	l.lab.RestoreHostKey("lab-inner")
	if err == nil || !strings.Contains(err.Error(), "cannot connect through lab-inner through lab-jump") || !strings.Contains(err.Error(), "SHA256:") {
		t.Errorf("login says %v", err)
	}
	if s := l.Host("lab-jump").Status(); s.State != api.HostUp {
		t.Errorf("the hop before it is %s", s.State)
	}
}
