package tunnel

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"tunctl/internal/api"
)

// standing is what a connection is used for. One that does not respond may still live:
// TCP survives an outage if the addresses stay. It is set aside and not closed, so that
// what is under way in it continues when it responds again. Meanwhile a login beside it
// follows the rules for all logins. Whichever comes first becomes the host's connection.
type standing int32

const (
	standingUsed     standing = iota // new channels are opened on it
	standingAside                    // it does not respond: no new channels
	standingReplaced                 // another took its place: it ends with its last channel
)

var errAddressGone = errors.New("this computer no longer has the address of the connection")

// errAside is why no channel is opened on a connection that does not respond.
var errAside = fmt.Errorf("%w: it does not respond", api.ErrDown)

// connections are those of a host besides the live one. The host's lock guards them.
type connections struct {
	ended *conn          // the one that is about to be closed, even if the host is wanted again at once
	lost  *conn          // the one that was last lost
	aside map[*conn]bool // see standing; false: about to be closed
}

// dropAside has those that are set aside closed.
func (c *connections) dropAside() {
	for old := range c.aside {
		c.aside[old] = false
	}
}

// worst is the worst standing of a connection and those that it goes through.
func (c *conn) worst() standing {
	c.mu.Lock()
	own := c.standing
	c.mu.Unlock()
	if c.parent == nil {
		return own
	}
	return max(own, c.parent.worst())
}

func (c *conn) setStanding(to standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.standing == standingUsed && to != standingUsed:
		close(c.set)
	case c.standing != standingUsed && to == standingUsed:
		c.set = make(chan struct{})
	}
	c.standing = to
}

// whenAside is closed once no new channels are opened on the connection. What only waits
// for its host to respond then fails, as after a loss.
func (c *conn) whenAside() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set
}

func (c *conn) isReplaced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing == standingReplaced
}

// responded reports whether bytes came after a time.
func (c *conn) responded(since time.Time) bool {
	last, _ := c.wire.heard()
	return last.After(since)
}

// replace is called when another connection took its place.
func (c *conn) replace() {
	c.setStanding(standingReplaced)
	c.endIfUnused()
}

func (c *conn) endIfUnused() {
	if c.isReplaced() && c.clients.open.Load() == 0 {
		c.end(errors.New("another connection replaced this one"))
	}
}

// doubt is called when a connection does not respond.
func (k *keepalive) doubt(why error) {
	h, c := k.host, k.c
	_, k.reads = c.wire.heard()
	k.doubted, k.probing, k.probeAgain, k.replaced = true, 0, false, time.Time{}
	k.stall.timer.Reset(stallCheck) // until it responds or ends
	k.resetTimer()
	h.log.Warn("the connection is set aside", "err", why, "channels", c.clients.open.Load())
	h.mu.Lock()
	if h.facts.live == c {
		c.setStanding(standingAside)
		h.conns.aside[c] = true
		h.lostLocked(c, why)
	}
	h.mu.Unlock()
	for _, user := range h.usersNow() {
		user.stopSharing(c, why)
	}
	h.wake()
}

// stopSharing is doubt for a host that shares another's connection.
func (h *Host) stopSharing(c *conn, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts.live == c {
		h.lostLocked(c, why)
		h.wake()
	}
}

// checkDoubted finds out whether a connection that did not respond does so again, or, if
// it was replaced, whether it is to be kept.
func (k *keepalive) checkDoubted(now time.Time) {
	c := k.c
	last, reads := c.wire.heard()
	here := c.hasAddress()
	if reads > k.reads && here && c.master == nil {
		k.respondsAgain()
		return
	}
	k.reads = reads      // without the address, these are bytes that were on their way
	if !c.isReplaced() { // a laptop may be without a network for days, and replies are noticed at once
		k.stall.timer.Reset(min(max(stallCheck, now.Sub(last)/20), slowCheck))
		return
	}
	k.stall.timer.Reset(stallCheck)
	if k.replaced.IsZero() {
		k.replaced = now
	}
	switch silence := now.Sub(latest(last, k.replaced)); {
	case !here:
		c.end(errAddressGone)
	case silence >= c.limits.KeepReplaced:
		c.end(fmt.Errorf("no response for %s", api.DurationText(now.Sub(last))))
	}
}

// respondsAgain makes a connection the host's again, unless another took its place.
func (k *keepalive) respondsAgain() {
	h, c := k.host, k.c
	k.doubted, k.missed = false, 0
	k.stall.due, k.stall.noticed = false, time.Time{}
	k.stall.timer.Stop()
	c.setStalled(time.Time{}, false)
	c.clients.checked.Store(false)
	k.resetTimer()
	h.mu.Lock()
	f := &h.facts
	back := h.conns.aside[c] && f.live == nil && f.wanted && h.conns.ended != c
	if back {
		delete(h.conns.aside, c)
		c.setStanding(standingUsed)
		h.connectedLocked(c)
		if h.cancel != nil && !f.loggingIn { // a login under way is not cut off
			h.cancel()
		}
	}
	h.mu.Unlock()
	h.log.Info("the host responds again", "replaced", !back)
	if !back {
		return
	}
	for _, user := range h.usersNow() {
		user.shareAgain(c)
	}
	h.wake()
}

// shareAgain is respondsAgain for a host that shared another's connection.
func (h *Host) shareAgain(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts.live == nil && h.facts.wanted && h.conns.lost == c {
		h.connectedLocked(c)
		h.wake()
	}
}

// connectedLocked makes a connection the host's.
func (h *Host) connectedLocked(c *conn) {
	f := &h.facts
	f.live, h.conns.lost = c, nil
	f.failure = nil
	f.tries.Connected()
	h.enterLocked()
}

// closeDropped closes the connections that nobody wants any more.
func (h *Host) closeDropped() {
	h.mu.Lock()
	aside := maps.Clone(h.conns.aside)
	h.mu.Unlock()
	for c, kept := range aside {
		if !kept {
			c.close(nil)
			h.connectionLost(c)
		}
	}
}
