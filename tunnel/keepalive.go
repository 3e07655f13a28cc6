package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
)

// keepaliveRequest is answered by every server, if only with a failure.
const keepaliveRequest = "keepalive@openssh.com"

// firstCommandTimeout bounds the first command on a connection.
const firstCommandTimeout = 10 * time.Second

// hold keeps the live connection until it ends, is no longer wanted, or ctx ends.
func (h *Host) hold(ctx context.Context) {
	c, err := h.current()
	if err != nil {
		return
	}
	defer h.connectionLost(c)
	if c.owner != h {
		h.holdShared(ctx, c)
		return
	}
	c.spawn(func() { h.runFirstCommand(ctx, c) })
	p := newKeepalive(c)
	defer p.stop()
	ending := certificateTimer(c.certificateEnds)
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
			if h.consumeProbe() {
				p.probe(h.probeTimeout())
			}
		case <-p.timer.C:
			if err := p.tick(time.Now()); err != nil {
				c.close(err)
			}
		case <-ending.C:
			h.warnCertificateEnds(c.certificateEnds)
		case rtt := <-p.replies:
			p.gotReply()
			c.measure(rtt, "")
			h.refresh()
		}
	}
}

// holdShared waits for the end of another host's connection, which that host keeps
// alive.
func (h *Host) holdShared(ctx context.Context, c *conn) {
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

func (h *Host) consumeProbe() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	probe := h.probe
	h.probe = false
	return probe
}

// probeTimeout bounds a probe. A connection that only a person can restore gets more
// time.
func (h *Host) probeTimeout() time.Duration {
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

// runFirstCommand runs hostname: sshd turns off Nagle's algorithm only once a session
// was opened, and the output is the name of the login node.
func (h *Host) runFirstCommand(ctx context.Context, c *conn) {
	ctx, cancel := context.WithTimeout(ctx, firstCommandTimeout)
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

// probeSession makes the host respond over a connection that an ssh program holds, where
// a keepalive would break the control socket. It opens a session; a refusal is a
// response too.
func (c *conn) probeSession() {
	session, err := c.client.NewSession()
	if err == nil {
		_ = session.Start(":")
		_ = session.Close()
	}
}

// keepalive sends requests on a silent connection. At most one is outstanding:
// x/crypto's SendRequest has no timeout, and one stuck request blocks all later ones
// (golang/go#19338). Any byte received counts as a reply.
type keepalive struct {
	c          *conn
	timer      *time.Timer
	replies    chan time.Duration
	waiting    bool          // a request is outstanding
	missed     int           // intervals without a byte
	reads      int           // the wire's number of reads at the last tick
	probing    time.Duration // the limit of the probe under way; 0: none
	probeAgain bool          // the network changed again during the probe
}

func newKeepalive(c *conn) *keepalive {
	p := &keepalive{c: c, timer: time.NewTimer(c.interval), replies: make(chan time.Duration, 1)}
	if c.heldBySSH {
		p.timer.Stop() // the ssh program has its own keepalive
	}
	return p
}

func (p *keepalive) stop() { p.timer.Stop() }

// probe requires a reply within limit.
func (p *keepalive) probe(limit time.Duration) {
	if p.probing > 0 {
		p.probeAgain = true // a reply may be older than this change
		return
	}
	p.probing = limit
	_, p.reads = p.c.wire.lastHeard()
	p.sendRequest()
	p.timer.Reset(limit)
}

// tick is called when the timer fires. An error means that the connection is dead.
func (p *keepalive) tick(now time.Time) error {
	last, reads := p.c.wire.lastHeard()
	alive := reads > p.reads
	p.reads = reads
	if alive {
		p.missed = 0
	}
	if limit := p.probing; limit > 0 && !alive {
		return fmt.Errorf("no response within %s after the network changed", api.DurationText(limit))
	}
	if p.c.heldBySSH && p.probing > 0 && p.waiting {
		// The bytes may have been on their way when the link died, and no later tick would
		// find that out: wait for the reply itself.
		p.timer.Reset(p.probing)
		return nil
	}
	if p.endProbe() || p.c.heldBySSH {
		return nil
	}
	silence := now.Sub(last)
	if silence < p.c.interval {
		p.timer.Reset(p.c.interval - silence)
		return nil
	}
	if p.missed >= p.c.maxMissed {
		return fmt.Errorf("no response for %s", api.DurationText(silence))
	}
	p.missed++
	p.timer.Reset(p.c.interval)
	p.sendRequest()
	return nil
}

// endProbe ends an answered probe, and reports whether another one started.
func (p *keepalive) endProbe() bool {
	limit := p.probing
	p.probing = 0
	if p.probeAgain {
		p.probeAgain = false
		p.probe(limit)
	}
	return p.probing > 0
}

// gotReply is called for the reply to a request.
func (p *keepalive) gotReply() {
	p.waiting = false
	if p.probing == 0 || p.endProbe() {
		return
	}
	if p.c.heldBySSH {
		p.timer.Stop()
	} else {
		p.timer.Reset(p.c.interval)
	}
}

// sendRequest sends one request, unless one is outstanding.
func (p *keepalive) sendRequest() {
	if p.waiting {
		return
	}
	p.waiting = p.c.spawn(func() {
		start := time.Now()
		if p.c.heldBySSH {
			p.c.probeSession()
			p.replies <- time.Since(start)
			return
		}
		_, _, err := p.c.client.SendRequest(keepaliveRequest, true, nil)
		if err == nil {
			p.replies <- time.Since(start)
		}
	})
}

var errHeldBySSH = errors.New("a connection that the ssh program holds cannot be measured")

// Ping measures the round trip of a request on the live connection, with the queues on
// the way.
func (h *Host) Ping(ctx context.Context) (time.Duration, error) {
	c, err := h.current()
	if err != nil {
		return 0, err
	}
	if c.heldBySSH {
		return 0, errHeldBySSH
	}
	answered := make(chan error, 1)
	start := time.Now()
	started := c.spawn(func() {
		_, _, err := c.client.SendRequest(keepaliveRequest, true, nil)
		answered <- err
	})
	if !started {
		return 0, c.downError()
	}
	select {
	case err := <-answered:
		return time.Since(start), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// certificateWarning is how long before the end of a certificate the warning comes.
const certificateWarning = 30 * time.Minute

// certificateTimer fires at the time of the warning; never if ends is zero.
func certificateTimer(ends time.Time) *time.Timer {
	if ends.IsZero() {
		never := time.NewTimer(time.Hour)
		never.Stop()
		return never
	}
	return time.NewTimer(time.Until(ends.Add(-certificateWarning)))
}

// warnCertificateEnds warns that the certificate expires: the connection stays, but
// cannot be restored without a new one.
func (h *Host) warnCertificateEnds(at time.Time) {
	text := fmt.Sprintf("your certificate expires at %s; after that, a lost connection needs a new one", at.Format(time.TimeOnly))
	h.log.Warn("certificate ends soon", "at", at)
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.view.Warnings, text) {
		return
	}
	h.view.Warnings = append(slices.Clip(h.view.Warnings), text)
	h.view.CertificateEnds = at
	h.publishLocked()
}
