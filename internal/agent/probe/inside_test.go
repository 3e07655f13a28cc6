package probe

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
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

// machine is a node on which a command ends with some status.
type machine struct {
	jobOnNode
	status uint32
	ran    string
}

func (m *machine) OpenChannel(context.Context, string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	requests := make(chan *ssh.Request, 1)
	requests <- &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(struct{ Status uint32 }{m.status})}
	return command{m: m}, requests, nil
}

type command struct {
	ssh.Channel // what is not asked
	m           *machine
}

func (c command) Close() error { return nil }

func (c command) SendRequest(_ string, _ bool, payload []byte) (bool, error) {
	c.m.ran = string(payload)
	return true, nil
}

func TestGuessedAddress(t *testing.T) {
	const guessed = "127.0.0.1:8888"
	var owned, foreign, unknown machine
	foreign.status = 1
	for name, tt := range map[string]struct {
		node  Node
		token string
		want  string // what the server at the guessed address gets
	}{
		"of the user gets the token":                {&owned, "SECRET", "token SECRET"},
		"of another user gets nothing":              {&foreign, "SECRET", ""},
		"of nobody knows whom gets nothing":         {&unknown.jobOnNode, "SECRET", ""},
		"of a page without a token gets no command": {&foreign, "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			dialer := dialerFunc(func(_ context.Context, address string) (net.Conn, error) {
				if address != guessed {
					return nil, api.ErrRefused
				}
				here, there := net.Pipe()
				go func() {
					defer func() { _ = there.Close() }()
					if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
						got = cmp.Or(r.Header.Get("Authorization"), "none")
						_, _ = io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				}()
				return here, nil
			})
			job := guessJob{node: tt.node}
			p := New(Options{Job: job, Limits: DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
			ep := api.Endpoint{App: "jupyter", Scheme: "http", Host: "cn01", Port: 8888, Reach: api.ReachNode, Token: api.NewSecret(tt.token)}
			for _, r := range p.routes(t.Context(), &Target{Node: "cn01"}, ep, time.Now()) {
				r.Dialer = dialer
				if err := r.probe(t.Context()); (err == nil) != (tt.want != "" && r.Endpoint.Address() == guessed) {
					t.Errorf("%s: %v", r.Endpoint.Address(), err)
				}
			}
			if got != tt.want {
				t.Errorf("it got %q, want %q", got, tt.want)
			}
		})
	}
	if !strings.Contains(owned.ran, "/:22B8$/") {
		t.Errorf("it ran %q", owned.ran)
	}
}

// guessJob is a job that is reached only on its node.
type guessJob struct {
	loginNode
	node Node
}

func (j guessJob) Node(context.Context, string) (Node, error) { return j.node, nil }
func (guessJob) Reaches() Reaches                             { return Reaches{Config: api.ReachNode} }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
