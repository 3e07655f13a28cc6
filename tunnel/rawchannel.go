package tunnel

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
)

// ownSessions is how many of a connection's sessions are kept for our own commands,
// so that a person's open shells never stop a job's watch.
const ownSessions = 2

// OpenChannel opens a channel of any kind (RFC 4254, section 5.1) on the live
// connection, for a guest: a person's shell or copy that shares it. A "session"
// waits for one of the sessions the host allows. The caller closes the channel and
// reads its requests. An *ssh.OpenChannelError is the host's own refusal.
func (h *Host) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c, err := h.current()
	if err != nil {
		return nil, nil, err
	}
	ch, requests, err := c.openChannel(ctx, kind, payload)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", h.label(), err)
	}
	return ch, requests, nil
}

func (c *conn) openChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if kind != "session" {
		return c.openRaw(ctx, kind, payload)
	}
	for {
		slot := c.slots.takeGuest(ctx, c.done)
		if slot == nil {
			if ctx.Err() != nil {
				return nil, nil, fmt.Errorf("waiting for a free session: %w", ctx.Err())
			}
			return nil, nil, c.gone()
		}
		ch, requests, err := c.openRaw(ctx, kind, payload)
		if err == nil {
			slot.open()
			return &guestSession{Channel: ch, give: sync.OnceFunc(slot.give)}, requests, nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			slot.give()
			return nil, nil, err
		}
		if !slot.refused() {
			return nil, nil, err
		}
	}
}

// openRaw opens a channel beside its caller, who may leave: x/crypto's open knows
// no ctx.
func (c *conn) openRaw(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type result struct {
		channel  ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	results := make(chan result)
	started := c.spawn(func() {
		ch, requests, err := c.client.OpenChannel(kind, payload)
		select {
		case results <- result{ch, requests, err}:
		case <-ctx.Done():
			if err == nil {
				_ = ch.Close()
				ssh.DiscardRequests(requests)
			}
		}
	})
	if !started {
		return nil, nil, c.gone()
	}
	select {
	case r := <-results:
		if r.err != nil && c.ended() {
			return nil, nil, c.gone()
		}
		return r.channel, r.requests, r.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// guestSession gives its slot back when it is closed.
type guestSession struct {
	ssh.Channel
	give func()
}

// Close ends the session.
func (g *guestSession) Close() error {
	defer g.give()
	return g.Channel.Close()
}
