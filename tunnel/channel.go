package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// Dial connects to an address as the host sees it: network is "tcp", or "unix" for
// a socket there. The connection has a CloseWrite, and no deadlines. Errors are
// api.ErrDown, api.ErrRefused or api.ErrProhibited where one of them fits.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := h.current()
	if err != nil {
		return nil, err
	}
	nc, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.label(), err)
	}
	return nc, nil
}

func (c *conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	started := c.spawn(func() {
		nc, err := c.client.Dial(network, address)
		select {
		case results <- result{nc, err}:
		case <-ctx.Done():
			if err == nil {
				_ = nc.Close()
			}
		}
	})
	if !started {
		return nil, c.gone()
	}
	select {
	case r := <-results:
		if r.err != nil {
			return nil, c.dialError(address, r.err)
		}
		return &channelConn{r.conn, c}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// channelConn is a connection beyond the host. x/crypto ends its channels with the
// link as if the far side had sent all; here such a read fails with api.ErrDown.
type channelConn struct {
	net.Conn
	link *conn
}

// Read implements net.Conn.
func (c *channelConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.link.ended() { //nolint:errorlint // x/crypto's own end
		err = c.link.gone()
	}
	return n, err
}

// CloseWrite says that no more bytes follow.
func (c *channelConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// dialError names the kind of a failed dial by the reason codes of RFC 4254,
// section 5.1.
func (c *conn) dialError(address string, err error) error {
	if c.ended() {
		return c.gone()
	}
	err = api.RemoteError(err) // the host says why
	open, ok := errors.AsType[*ssh.OpenChannelError](err)
	if !ok {
		return err
	}
	switch open.Reason {
	case ssh.Prohibited:
		return fmt.Errorf("%w to %s: %w", api.ErrProhibited, address, err)
	case ssh.ConnectionFailed:
		return fmt.Errorf("%w to %s: %w", api.ErrRefused, address, err)
	}
	return fmt.Errorf("%s: %w", address, err)
}

// Listen makes the host listen at an address; the listener's connections come from
// there. It ends with the connection.
func (h *Host) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	c, err := h.current()
	if err != nil {
		return nil, err
	}
	type result struct {
		l   net.Listener
		err error
	}
	results := make(chan result)
	started := c.spawn(func() {
		l, err := c.client.Listen(network, address)
		select {
		case results <- result{l, err}:
		case <-ctx.Done():
			if err == nil {
				_ = l.Close()
			}
		}
	})
	if !started {
		return nil, c.gone()
	}
	select {
	case r := <-results:
		switch {
		case r.err == nil:
			return r.l, nil
		case c.ended():
			return nil, c.gone()
		}
		return nil, fmt.Errorf("%s: listening at %s: %w", h.label(), address, r.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
