package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
)

// sshOnHost are connections to a node through ssh -W on the host.
type sshOnHost struct {
	link    tunnel.Link
	names   []string
	timeout time.Duration // for each name

	mu      sync.Mutex
	refused failure.Refusals
}

// maxUnanswered is how many names of a node may time out before the next route is tried.
const maxUnanswered = 2

var errNodeSilent = errors.New("the node does not respond")

// dial is the dial of a route.
func (r *sshOnHost) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, r.failure(errors.New("unix sockets cannot be reached this way"))
	}
	r.mu.Lock()
	err := r.refused.Err()
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	unanswered := 0
	for _, name := range r.names {
		var c net.Conn
		if c, err = r.dialName(ctx, name, address); !failure.IsRoute(err) {
			return c, err
		}
		if errors.Is(err, errNodeSilent) {
			unanswered++
		}
		if failure.Of(err) == failure.Refused || unanswered == maxUnanswered {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused.Note(err)
	return nil, err
}

func (r *sshOnHost) failure(err error) error {
	return &failure.RouteError{Route: "ssh on the host", Err: err}
}

// dialName connects by one name of the node.
func (r *sshOnHost) dialName(ctx context.Context, name, address string) (net.Conn, error) {
	if !posixsh.IsWord(name) || !posixsh.IsWord(address) {
		return nil, r.failure(fmt.Errorf("%q and %q cannot be part of a command", name, address))
	}
	mark := "tunctl-" + rand.Text() // no start-up file prints that
	// Only this log level has the messages that are read below.
	s, err := r.link.Start(ctx, posixsh.Line, fmt.Sprintf("printf '%%s\\n' %s; exec ssh -o BatchMode=yes -o ConnectTimeout=%d"+
		" -o StrictHostKeyChecking=accept-new -o ForwardX11=no -o LogLevel=DEBUG2 -W %s %s", mark, int(r.timeout/time.Second)+1, address, name))
	if err != nil {
		return nil, err
	}
	var silent atomic.Bool // closed because the node did not respond in time
	late := time.AfterFunc(r.timeout, func() {
		if !strings.Contains(s.Stderr.String(), sshGreeted) {
			silent.Store(true)
			_ = s.Close()
		}
	})
	defer late.Stop()
	if err := s.Await(ctx, func() error { return r.awaitOpen(s, mark, &silent) }); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.CountAsClient()
	return s, nil
}

// maxBefore bounds what the start-up files of shells may print before a connection.
const maxBefore = 1 << 20

// awaitOpen returns when ssh's connection to the node is open, or why it is not.
func (r *sshOnHost) awaitOpen(s *tunnel.Stream, mark string, silent *atomic.Bool) error {
	var line string
	var err error
	for left := maxBefore; err == nil && strings.TrimRight(line, "\r\n") != mark; left -= len(line) {
		line, err = s.ReadLine(left)
	}
	switch {
	case errors.Is(err, api.ErrLongLine):
		return r.failure(failure.Passing.Wrap(errors.New("the host prints without end")))
	case err == nil && s.Stderr.Await(sshConfirmed):
		return nil
	}
	<-s.Exited()
	status, noStatus := s.Status()
	said := s.Stderr.Text().String()
	switch {
	case noStatus == nil && strings.Contains(said, sshRefused):
		return fmt.Errorf("%w: %s", api.ErrRefused, said)
	case silent.Load():
		return r.failure(failure.Passing.Wrap(errNodeSilent))
	case said == "":
		said = fmt.Sprintf("exit status %d", status)
	}
	return r.failure(failure.ReadSSH(s.Stderr.String()).Class.Wrap(errors.New(said)))
}

// What ssh prints when the node's sshd responds, when its channel is open, and when nothing
// listens at the address.
const (
	sshGreeted   = "debug1: Remote protocol version "
	sshConfirmed = ": open confirm "
	sshRefused   = "open failed: connect failed"
)
