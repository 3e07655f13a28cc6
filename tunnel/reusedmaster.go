//go:build unix

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"syscall"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/mux"
)

// lent rides the person's own ssh connection (ControlMaster), where they allow that
// and one is up; nil where not. It is theirs: it is there before us and after us, and
// is asked for what we need as another ssh of theirs would.
func (t *attempt) lent(ctx context.Context) *conn {
	s := &t.settings
	if !s.ReuseMaster {
		return nil
	}
	if s.ControlPath == "" {
		t.warn("reuse_master has no effect: the ssh settings name no ControlPath for this host")
		return nil
	}
	t.host.step("looking for your own ssh connection")
	t.host.triedLent(s.ControlPath)
	c, err := t.rideLent(ctx)
	switch {
	case err == nil:
		t.log.Info("using the person's own ssh connection", "controlPath", s.ControlPath)
		return c
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		t.log.Debug("there is no ssh connection to use", "controlPath", s.ControlPath)
	default:
		t.warn(fmt.Sprintf("your own ssh connection at %s is not used: %v", s.ControlPath, err))
	}
	return nil
}

// rideLent makes a connection of the person's control socket.
func (t *attempt) rideLent(ctx context.Context) (*conn, error) {
	path := t.settings.ControlPath
	raw, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	t.wire = newWire(raw)
	t.wire.seen = true // there is no greeting on this one
	m, channels, requests, err := mux.Attach(t.wire, mux.Options{Path: path, Heard: t.wire.hear})
	if err != nil {
		return nil, err
	}
	c := newConn(t, ssh.NewClient(m, channels, requests))
	c.mute, c.lent = true, true
	c.transport, c.because = api.TransportMaster, "your own ssh connection at "+path
	c.auth, c.via = "controlmaster", slices.Concat([]string{}, t.settings.ProxyJump)
	if err := t.answers(ctx, c); err != nil {
		c.close(err)
		return nil, err
	}
	return c, nil
}

// answers makes sure that there is a server behind a control socket: a master may not
// have noticed yet that its link is dead.
func (t *attempt) answers(ctx context.Context, c *conn) error {
	limit := t.pool.o.Limits.DialTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answered := make(chan struct{})
	c.spawn(func() {
		defer close(answered)
		c.knock()
	})
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no response within %s", api.DurationText(limit))
	}
}
