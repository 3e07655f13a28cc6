package probe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestOnlyACommandThatSucceedsProvesAJobToWorkIn(t *testing.T) {
	status := func(n uint32) *ssh.Request {
		return &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(struct{ Status uint32 }{n})}
	}
	for name, tt := range map[string]struct {
		sent []*ssh.Request
		want string
	}{
		"success":                 {[]*ssh.Request{{Type: "keepalive@openssh.com"}, status(0)}, ""},
		"another status":          {[]*ssh.Request{status(127)}, "ended with status 127"},
		"the end of the channel":  {nil, "did not report how it ended"},
		"a killed command":        {[]*ssh.Request{{Type: "exit-signal"}}, "did not report how it ended"},
		"a status without number": {[]*ssh.Request{{Type: "exit-status"}}, "ended with status"},
	} {
		requests := make(chan *ssh.Request, len(tt.sent))
		for _, r := range tt.sent {
			requests <- r
		}
		close(requests)
		err := exitStatus(t.Context(), requests)
		if got := errText(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exitStatus(ctx, make(chan *ssh.Request)); !errors.Is(err, context.Canceled) {
		t.Errorf("a command that does not end: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
