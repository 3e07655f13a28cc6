package usage

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/gateway"
)

// silentNode opens a channel, and then does not respond until its connection is lost.
type silentNode struct {
	gateway.Machine
	lost chan struct{}
}

func (n silentNode) OpenChannel(context.Context, string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	requests := make(chan *ssh.Request)
	close(requests)
	return silentChannel{lost: n.lost}, requests, nil
}

type silentChannel struct {
	ssh.Channel
	lost chan struct{}
}

func (c silentChannel) SendRequest(string, bool, []byte) (bool, error) {
	<-c.lost
	return false, io.EOF
}

func (c silentChannel) Read([]byte) (int, error) {
	<-c.lost
	return 0, io.EOF
}

func (silentChannel) Close() error { return nil }

func TestSamplerSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := silentNode{lost: make(chan struct{})}
		start := time.Now()
		if _, err := startSampler(t.Context(), node, "7"); !errors.Is(err, errSamplerSlow) || time.Since(start) != samplerStart {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := startSampler(ctx, node, "7"); !errors.Is(err, context.Canceled) {
			t.Errorf("without a session that wants it: %v", err)
		}
		close(node.lost) // all that has waited for it ends
	})
}
