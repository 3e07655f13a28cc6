package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/pace"
)

func (c *conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, t, err := openForClient(ctx, c, func() (net.Conn, error) {
		nc, err := c.client.Dial(network, address)
		return nc, dialError(address, err)
	}, closeLate[net.Conn])
	if err != nil {
		return nil, err
	}
	return &channelConn{trafficConn{nc, t}, c}, nil
}

// dialHop is dial for another SSH connection inside this one, which is not paced: the
// inner one paces its own channels.
func (c *conn) dialHop(ctx context.Context, network, address string) (*channelConn, error) {
	nc, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	through := nc.(*channelConn)
	share := through.share.Load()
	share.in, share.out = pace.Stream{}, pace.Stream{}
	return through, nil
}

// openForClient has f open a channel for a client, and returns it with its traffic; see [open].
func openForClient[T any](ctx context.Context, c *conn, f func() (T, error), late func(T)) (o T, t *Traffic, err error) {
	t = c.newTraffic()
	err = t.open(c, func() (err error) {
		o, err = open(ctx, c, f, late)
		return err
	})
	if err == nil {
		t.share.Load().wait.opened()
	}
	return o, t, err
}

// open calls f in a goroutine and returns early when ctx ends, or the connection is set
// aside: x/crypto's functions take no ctx. What f opens after that goes to late.
func open[T any](ctx context.Context, c *conn, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		opened T
		err    error
	}
	results, aside := make(chan result), c.whenAside()
	started := c.spawn(func() {
		opened, err := f()
		select {
		case results <- result{opened, err}:
			return
		case <-aside:
		case <-ctx.Done():
		}
		if err == nil {
			late(opened)
		}
	})
	var r result
	if !started {
		return r.opened, c.downError()
	}
	select {
	case r = <-results:
		r.err = c.orDown(r.err)
	case <-aside:
		r.err = errAside
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	return r.opened, r.err
}

func closeLate[T io.Closer](opened T) { _ = opened.Close() }

// channelConn is a connection through the host, from here or from there. When the link is lost, x/crypto ends
// channels with io.EOF, as if the other side had sent everything; here such a read fails
// with api.ErrDown.
type channelConn struct {
	trafficConn
	link *conn
}

// Read implements net.Conn.
func (c *channelConn) Read(p []byte) (int, error) {
	n, err := c.trafficConn.Read(p)
	if err == io.EOF && c.link.ended() { //nolint:errorlint // x/crypto's own end
		err = c.link.downError()
	}
	return n, err
}

// dialError classifies a failed dial by the reason codes of RFC 4254, section 5.1.
func dialError(address string, err error) error {
	if err == nil {
		return nil
	}
	err = api.RemoteError(err)
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

// listen makes the host listen at an address.
func (c *conn) listen(ctx context.Context, network, address string) (net.Listener, error) {
	return open(ctx, c, func() (net.Listener, error) {
		listen := c.client.Listen
		if c.master != nil {
			listen = c.master.Listen
		}
		l, err := listen(network, address)
		if err != nil {
			return nil, fmt.Errorf("listening at %s: %w", address, err)
		}
		return &channelListener{l, c}, nil
	}, closeLate[net.Listener])
}

// channelListener accepts connections from the host.
type channelListener struct {
	net.Listener
	link *conn
}

// Accept implements net.Listener.
func (l *channelListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &channelConn{trafficConn{nc, l.link.newTraffic()}, l.link}
	c.share.Load().wait.opened()
	return c, nil
}

// Close implements net.Listener. The library locks all its listeners until somebody has accepted
// what the host sends, of which few can be under way: they are accepted and closed.
func (l *channelListener) Close() error {
	go func() {
		for range 16 {
			if nc, err := l.Listener.Accept(); err == nil {
				_ = nc.Close()
			}
		}
	}()
	return l.Listener.Close()
}

func (c *conn) openChannel(ctx context.Context, kind string, payload []byte) (opened, error) {
	if kind != "session" {
		return c.openClientChannel(ctx, kind, payload, func() {})
	}
	for {
		slot := c.slots.AcquireShared(ctx, c.done)
		if slot == nil {
			if ctx.Err() != nil {
				return opened{}, api.Errorf(api.CodeTimeout, "no SSH session of the connection became free in time").Because(ctx.Err())
			}
			return opened{}, c.downError()
		}
		o, err := c.openClientChannel(ctx, kind, payload, sync.OnceFunc(func() { c.endSession(slot) }))
		if err == nil {
			slot.Accepted()
			return o, nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			slot.Release()
			return opened{}, err
		}
		if !slot.Refused() {
			return opened{}, err
		}
	}
}

// opened is a channel of a client with the host's requests in it.
type opened struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

// openClientChannel opens a channel; release is called once at its end.
func (c *conn) openClientChannel(ctx context.Context, kind string, payload []byte, release func()) (opened, error) {
	o, t, err := openForClient(ctx, c, func() (opened, error) {
		ch, requests, err := c.client.OpenChannel(kind, payload)
		return opened{ch, requests}, err
	}, func(o opened) {
		_ = o.Close()
		ssh.DiscardRequests(o.requests)
	})
	if err != nil {
		return opened{}, err
	}
	t.release = release
	return opened{&clientChannel{o.Channel, t}, o.requests}, nil
}
