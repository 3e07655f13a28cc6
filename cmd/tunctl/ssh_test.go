package main

import (
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestAHostsRefusalCannotSteerTheTerminal(t *testing.T) {
	err := exitOf("narval", &ssh.OpenChannelError{Reason: ssh.Prohibited, Message: "no \x1b]0;owned\x07\x1b[2Jshells"})
	if want := "narval: no shells"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
}
