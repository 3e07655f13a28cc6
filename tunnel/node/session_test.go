package node

import (
	"context"
	"errors"
	"io"
	"testing"

	"golang.org/x/crypto/ssh"

	"tunctl/tunnel/step"
)

// textChannel is a channel whose program prints a text and ends well.
type textChannel struct {
	ssh.Channel
	text     string
	fails    error // of a start
	requests chan *ssh.Request
	closed   bool
}

func newTextChannel(text string, fails error) *textChannel {
	return &textChannel{text: text, fails: fails, requests: make(chan *ssh.Request, 1)}
}

func (c *textChannel) SendRequest(string, bool, []byte) (bool, error) {
	if c.fails == nil {
		c.requests <- &ssh.Request{Type: "exit-status"}
	}
	return c.fails == nil, c.fails
}

func (c *textChannel) Read(p []byte) (int, error) {
	n := copy(p, c.text)
	c.text = c.text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *textChannel) Close() error {
	if !c.closed {
		c.closed = true
		close(c.requests)
	}
	return nil
}

func TestFilesAreTheHostsWhereTheNodeHasNoSFTPServer(t *testing.T) {
	sftp := ssh.Marshal(struct{ Name string }{"sftp"})
	lost := errors.New("the relay ended")
	for _, tt := range []struct {
		name    string
		request string
		fails   error
		want    string
		err     error
	}{
		{"the node has one", "subsystem", nil, "node", nil},
		{"the node has none", "subsystem", step.ErrNoSFTP, "host", nil},
		{"the way into the job is lost", "subsystem", lost, "node", lost},
		{"a command", "exec", nil, "node", nil},
		{"a command that does not start", "exec", lost, "node", lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, host := newTextChannel("node", tt.fails), newTextChannel("host", nil)
			s, requests := newJobSession(node, node.requests, func(context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
				return host, host.requests, nil
			})
			read := make(chan string)
			go func() { // as the gateway does, before anything is started
				got, _ := io.ReadAll(s)
				read <- string(got)
			}()
			if ok, err := s.SendRequest(tt.request, true, sftp); ok != (tt.err == nil) || !errors.Is(err, tt.err) {
				t.Errorf("%v, %v", ok, err)
			}
			if got := <-read; got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
			if tt.err == nil {
				if r := <-requests; r.Type != "exit-status" {
					t.Errorf("%v", r)
				}
			}
			_ = s.Close()
			for range requests {
			}
			if tt.want == "host" && !node.closed {
				t.Error("the node's channel stays open")
			}
		})
	}
}

func TestASessionThatStartsNothingEndsWhenItIsClosed(t *testing.T) {
	node := newTextChannel("", nil)
	s, requests := newJobSession(node, node.requests, nil)
	read := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		read <- err
	}()
	_ = s.Close()
	for range requests {
	}
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
