package tunnel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
)

// keepaliveRequest is one that every server answers, if only to say that it does not
// know it.
const keepaliveRequest = "keepalive@openssh.com"

// loginNodeTimeout bounds the first command on a connection.
const loginNodeTimeout = 10 * time.Second

// hold keeps the live connection until it ends, is unwanted, or ctx ends.
func (h *Host) hold(ctx context.Context) {
	c, err := h.current()
	if err != nil {
		return
	}
	defer h.lost(c)
	if c.owner != h {
		h.ride(ctx, c)
		return
	}
	c.spawn(func() { h.greet(ctx, c) })
	p := newPulse(c)
	defer p.stop()
	ending := endingTimer(c.ends)
	defer ending.Stop()
	for {
		select {
		case <-c.done:
			c.close(nil)
			return
		case <-ctx.Done():
			c.close(ctx.Err())
			return
		case <-h.kick:
			if h.unwanted() {
				c.close(nil)
				return
			}
			if h.takeProbe() {
				p.probe(h.patience())
			}
		case <-p.timer.C:
			if err := p.beat(time.Now()); err != nil {
				c.close(err)
			}
		case <-ending.C:
			h.certificateEnds(c.ends)
		case rtt := <-p.replies:
			p.answered()
			c.measure(rtt, "")
			h.refresh()
		}
	}
}

// ride uses another host's connection, which that host keeps.
func (h *Host) ride(ctx context.Context, c *conn) {
	for {
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			return
		case <-h.kick:
			if h.unwanted() {
				return
			}
		}
	}
}

func (h *Host) unwanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.facts.wanted || h.ended == h.facts.live
}

func (h *Host) takeProbe() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	probe := h.probe
	h.probe = false
	return probe
}

// patience is how long a probe may take. A connection that only a person can make
// again is given time for the network to come back.
func (h *Host) patience() time.Duration {
	if h.pool.o.Memory.Silent(h.name) {
		return h.pool.o.Limits.ProbeTimeout
	}
	return h.pool.o.Limits.WakeGrace
}

func (h *Host) refresh() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enterLocked()
}

// greet runs the connection's first command: sshd turns Nagle's algorithm off only
// once a session was opened, and the answer tells which login node we are on.
func (h *Host) greet(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, loginNodeTimeout)
	defer cancel()
	start := time.Now()
	out, err := c.run(ctx, "hostname", nil)
	if err != nil || out.Exit != 0 {
		h.log.Debug("the host runs no commands", "err", err)
		return
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), "\n")
	// two round trips: the channel and the command
	c.measure(time.Since(start)/2, api.NewRemoteText(name).String())
	h.refresh()
}

// knock makes the host say something over a connection that an ssh program holds,
// where a keepalive would end the link: it opens a session, and a refusal is an answer
// too.
func (c *conn) knock() {
	session, err := c.client.NewSession()
	if err == nil {
		_ = session.Start(":")
		_ = session.Close()
	}
}

// pulse asks a silent connection for signs of life. At most one request is
// outstanding, since x/crypto's SendRequest has no timeout and one stuck request
// blocks all later ones (golang/go#19338); any byte received counts as life.
type pulse struct {
	c       *conn
	timer   *time.Timer
	replies chan time.Duration
	waiting bool          // a request is outstanding
	quiet   int           // intervals without a byte
	reads   int           // what the wire had heard when we last looked
	probing time.Duration // the limit of the probe under way; 0 without one
	again   bool          // the network changed once more meanwhile
}

func newPulse(c *conn) *pulse {
	p := &pulse{c: c, timer: time.NewTimer(c.interval), replies: make(chan time.Duration, 1)}
	if c.mute {
		p.timer.Stop() // the ssh that holds it looks after it
	}
	return p
}

func (p *pulse) stop() { p.timer.Stop() }

// probe wants a sign of life within limit.
func (p *pulse) probe(limit time.Duration) {
	if p.probing > 0 {
		p.again = true // what it hears may be from before
		return
	}
	p.probing = limit
	_, p.reads = p.c.wire.heard()
	p.ask()
	p.timer.Reset(limit)
}

// beat is called when the timer rings; its error is the connection's death.
func (p *pulse) beat(now time.Time) error {
	last, reads := p.c.wire.heard()
	alive := reads > p.reads
	p.reads = reads
	if alive {
		p.quiet = 0
	}
	if limit := p.probing; limit > 0 && !alive {
		return fmt.Errorf("no response within %s after the network changed", api.DurationText(limit))
	}
	if p.c.mute && p.probing > 0 && p.waiting {
		// What came may have been on its way when the link died, and no later beat would
		// find that out: the answer itself is wanted.
		p.timer.Reset(p.probing)
		return nil
	}
	if p.probed() || p.c.mute {
		return nil
	}
	silence := now.Sub(last)
	if silence < p.c.interval {
		p.timer.Reset(p.c.interval - silence)
		return nil
	}
	if p.quiet >= p.c.misses {
		return fmt.Errorf("no response for %s", api.DurationText(silence))
	}
	p.quiet++
	p.timer.Reset(p.c.interval)
	p.ask()
	return nil
}

// probed ends a probe that was answered, and reports whether there is another.
func (p *pulse) probed() bool {
	limit := p.probing
	p.probing = 0
	if p.again {
		p.again = false
		p.probe(limit)
	}
	return p.probing > 0
}

// answered notes the answer to what was asked.
func (p *pulse) answered() {
	p.waiting = false
	if p.probing == 0 || p.probed() {
		return
	}
	if p.c.mute {
		p.timer.Stop()
	} else {
		p.timer.Reset(p.c.interval)
	}
}

// ask sends one request, unless one is outstanding.
func (p *pulse) ask() {
	if p.waiting {
		return
	}
	p.waiting = p.c.spawn(func() {
		start := time.Now()
		if p.c.mute {
			p.c.knock()
			p.replies <- time.Since(start)
			return
		}
		// A server that does not know the request says so, which is an answer too.
		_, _, err := p.c.client.SendRequest(keepaliveRequest, true, nil)
		if err == nil {
			p.replies <- time.Since(start)
		}
	})
}
