package tunnel

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
	"tunctl/tunnel/failure"
)

// sshOnHost are connections to a node through ssh -W on the host.
type sshOnHost struct {
	host    *Host
	names   []string
	timeout time.Duration // for each name

	mu    sync.Mutex
	final error // why no more logins on the node are tried
}

// maxUnanswered is how many names of a node may time out before the next way is tried.
const maxUnanswered = 2

var errNodeSilent = errors.New("the node does not respond")

// dial is the dial of a way.
func (r *sshOnHost) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, r.noWay(errors.New("unix sockets cannot be reached this way"))
	}
	r.mu.Lock()
	err := r.final
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	unanswered := 0
	for _, name := range r.names {
		var c net.Conn
		if c, err = r.dialName(ctx, name, address); !isNoWay(err) {
			return c, err
		}
		if errors.Is(err, errNodeSilent) {
			unanswered++
		}
		if failure.Of(err) == failure.Refused || unanswered == maxUnanswered {
			break
		}
	}
	if isFinal(err) {
		r.mu.Lock()
		r.final = err
		r.mu.Unlock()
	}
	return nil, err
}

func (r *sshOnHost) noWay(err error) error { return &noWayError{"ssh on the host", err} }

// dialName connects by one name of the node.
func (r *sshOnHost) dialName(ctx context.Context, name, address string) (net.Conn, error) {
	if !safeWord(name) || !safeWord(address) {
		return nil, r.noWay(fmt.Errorf("%q and %q cannot be part of a command", name, address))
	}
	c, err := r.host.current()
	if err != nil {
		return nil, err
	}
	mark := "tunctl-" + rand.Text() // no start-up file prints that
	// Only this log level has the messages that are read below.
	s, err := c.stream(ctx, posixsh.Line, fmt.Sprintf("printf '%%s\\n' %s; exec ssh -o BatchMode=yes -o ConnectTimeout=%d"+
		" -o StrictHostKeyChecking=accept-new -o ForwardX11=no -o LogLevel=DEBUG2 -W %s %s", mark, int(r.timeout/time.Second)+1, address, name))
	if err != nil {
		return nil, err
	}
	var silent atomic.Bool // closed because the node did not respond in time
	late := time.AfterFunc(r.timeout, func() {
		if !strings.Contains(s.stderr.raw(), sshGreeted) {
			silent.Store(true)
			_ = s.Close()
		}
	})
	defer late.Stop()
	_, err = open(ctx, c, func() (*stream, error) { return s, r.awaitOpen(s, mark, &silent) }, func(*stream) {})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.wait.opened()
	return s, nil
}

// maxBefore bounds what the start-up files of shells may print before a connection.
const maxBefore = 1 << 20

// awaitOpen returns when ssh's connection to the node is open, or why it is not.
func (r *sshOnHost) awaitOpen(s *stream, mark string, silent *atomic.Bool) error {
	var line string
	var err error
	for left := maxBefore; err == nil && strings.TrimRight(line, "\r\n") != mark; left -= len(line) {
		line, err = api.ReadLine(s.out, left)
	}
	switch {
	case errors.Is(err, api.ErrLongLine):
		return r.noWay(failure.Passing.Wrap(errors.New("the host prints without end")))
	case err == nil && s.stderr.await(sshConfirmed):
		return nil
	}
	<-s.exited
	said := s.stderr.text().String()
	switch {
	case s.err == nil && strings.Contains(said, sshRefused):
		return fmt.Errorf("%w: %s", api.ErrRefused, said)
	case silent.Load():
		return r.noWay(failure.Passing.Wrap(errNodeSilent))
	case said == "":
		said = fmt.Sprintf("exit status %d", s.status)
	}
	return r.noWay(failure.ReadSSH(s.stderr.raw()).Class.Wrap(errors.New(said)))
}

// safeWord reports whether text is only an address, a name or a number, without a
// meaning to a shell or as an option.
func safeWord(text string) bool {
	return text != "" && text[0] != '-' && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:+-[]") == ""
}

// What ssh prints when the node's sshd responds, when its channel is open, and when nothing
// listens at the address.
const (
	sshGreeted   = "debug1: Remote protocol version "
	sshConfirmed = ": open confirm "
	sshRefused   = "open failed: connect failed"
)
