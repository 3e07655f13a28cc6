package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/tcpinfo"
)

// keepaliveRequest is answered by every server, if only with a failure.
const keepaliveRequest = "keepalive@openssh.com"

// firstCommandTimeout bounds the first command on a connection.
const firstCommandTimeout = 10 * time.Second

// keepalive sends requests on a silent connection. At most one is outstanding:
// x/crypto's SendRequest has no timeout, and one stuck request blocks all later ones
// (golang/go#19338). Any byte received counts as a reply.
type keepalive struct {
	host       *Host // whose connection it is
	c          *conn
	timer      *time.Timer
	replies    chan time.Duration
	waiting    bool          // a request is outstanding
	inUse      bool          // it was sent because a client waits; there may be many of these
	missed     int           // intervals without a byte
	reads      int           // the wire's number of reads at the last tick
	probing    time.Duration // the limit of the probe under way; 0: none
	probeAgain bool          // the network changed again during the probe
	gone       bool          // the probe waits for the address to return
	doubted    bool          // it was found not to respond, and has not since
	replaced   time.Time     // when it was found to be replaced while doubted
	stall      stall
}

func newKeepalive(h *Host, c *conn) *keepalive {
	k := &keepalive{host: h, c: c, timer: time.NewTimer(c.limits.KeepaliveEvery), replies: make(chan time.Duration, 1), stall: newStall(c)}
	k.resetTimer()
	return k
}

// resetTimer has the next keepalive wait for the interval.
func (k *keepalive) resetTimer() {
	if k.c.master != nil {
		k.timer.Stop() // the ssh program has its own keepalive
	} else {
		k.timer.Reset(k.c.limits.KeepaliveEvery)
	}
}

// keep keeps a connection alive until it ends, also while it is set aside.
func (k *keepalive) keep(ctx context.Context) {
	h, c := k.host, k.c
	defer h.connectionLost(c)
	c.spawn(func() { k.runFirstCommand(ctx) })
	defer k.timer.Stop()
	defer k.stall.timer.Stop()
	var ending <-chan time.Time
	if !c.certificateEnds.IsZero() {
		ending = time.After(time.Until(c.certificateEnds.Add(-CertificateWarning)))
	}
	for {
		select {
		case <-c.done:
			c.close(nil)
			return
		case <-ctx.Done():
			c.close(ctx.Err())
			return
		case <-c.network:
			k.checkNetwork()
		case <-k.timer.C:
			if err := k.tick(time.Now()); err != nil {
				k.doubt(err)
			}
		case <-c.clients.began:
			k.expectReply(time.Now())
		case <-k.stall.timer.C:
			if k.doubted {
				k.checkDoubted(time.Now())
			} else {
				k.showStall(time.Now())
			}
		case <-ending:
			k.warnCertificateEnds()
		case rtt := <-k.replies:
			k.gotReply()
			if k.doubted && c.hasAddress() {
				k.respondsAgain()
			}
			if !k.inUse {
				c.setMeasured(rtt, "")
				h.refresh()
			}
			k.inUse = false
		}
	}
}

// checkNetwork is called after a network change, and when the user asks for a host that does
// not respond: a login may then ask them at once. A connection whose address is gone
// cannot reply: it is not asked, so that TCP need not wait before it sends again.
func (k *keepalive) checkNetwork() {
	gone, limits := !k.c.hasAddress(), &k.host.pool.o.Limits
	switch {
	case k.doubted:
		k.sendRequest()
	case !k.host.restoredSilently() && !k.host.attended():
		k.probe(limits.WakeGrace, gone)
	case gone:
		k.doubt(errAddressGone)
	default:
		k.probe(limits.ProbeTimeout, false)
	}
}

// restoredSilently reports whether the connection, and all that go through it, can be
// restored without the user.
func (h *Host) restoredSilently() bool {
	if !h.pool.o.Memory.Known(h.name).Silent {
		return false
	}
	for _, user := range h.pool.sharing.usersOf(h) {
		if _, err := user.current(); err == nil && !user.restoredSilently() {
			return false
		}
	}
	return true
}

// attended reports whether the user may be asked now.
func (h *Host) attended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts.tries.IsAttended(time.Now())
}

// refresh enters the state that follows from what the connection measures.
func (h *Host) refresh() { h.change(func(*facts) {}) }

// runFirstCommand runs hostname: sshd turns off Nagle's algorithm only once a session
// was opened, and the output is the name of the login node.
func (k *keepalive) runFirstCommand(ctx context.Context) {
	h, c := k.host, k.c
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
	c.setMeasured(time.Since(start)/2, api.NewRemoteText(name).String())
	h.refresh()
}

// probe requires a reply within limit. While the address is gone, none can come.
func (k *keepalive) probe(limit time.Duration, gone bool) {
	if k.probing > 0 && limit >= k.probing && !k.gone {
		k.probeAgain = true // a reply may be older than this change
		return
	}
	now := time.Now()
	k.probing, k.gone = limit, gone
	_, k.reads = k.c.wire.heard()
	k.sendRequest()
	k.expectReply(now)
	if gone {
		k.stall.noticed = now
	}
	k.timer.Reset(limit)
}

// tick is called when the timer fires. An error means that the connection does not
// respond.
func (k *keepalive) tick(now time.Time) error {
	if k.doubted || k.probing == 0 && !k.c.hasAddress() {
		k.sendRequest()
		k.resetTimer()
		return nil
	}
	last, reads := k.c.wire.heard()
	alive := reads > k.reads
	k.reads = reads
	if alive {
		k.missed = 0
	}
	if limit := k.probing; limit > 0 && !alive {
		k.probing, k.probeAgain = 0, false
		k.resetTimer()
		if k.gone {
			return fmt.Errorf("%w after the network changed", errAddressGone)
		}
		return fmt.Errorf("no response within %s after the network changed", api.DurationText(limit))
	}
	if k.c.master != nil && k.probing > 0 && k.waiting {
		// The bytes may have been on their way when the link died, and no later tick would
		// find that out: wait for the reply itself.
		k.timer.Reset(k.probing)
		return nil
	}
	if k.endProbe() || k.c.master != nil {
		return nil
	}
	silence := now.Sub(last)
	if silence < k.c.limits.KeepaliveEvery {
		k.timer.Reset(k.c.limits.KeepaliveEvery - silence)
		return nil
	}
	if k.missed >= k.c.limits.KeepaliveMax {
		return fmt.Errorf("no response for %s", api.DurationText(silence))
	}
	k.missed++
	k.timer.Reset(k.c.limits.KeepaliveEvery)
	k.sendRequest()
	k.expectReply(now)
	return nil
}

// endProbe ends an answered probe, and reports whether another one started.
func (k *keepalive) endProbe() bool {
	limit := k.probing
	k.probing = 0
	if k.probeAgain {
		k.probeAgain = false
		k.probe(limit, false)
	}
	return k.probing > 0
}

// gotReply is called for the reply to a request.
func (k *keepalive) gotReply() {
	k.waiting = false
	if k.probing > 0 && !k.endProbe() {
		k.resetTimer()
	}
}

// sendRequest sends one request, unless one is outstanding or nothing can be sent.
func (k *keepalive) sendRequest() {
	if k.waiting || !k.c.hasAddress() {
		return
	}
	k.waiting = k.c.spawn(func() {
		if rtt, err := k.c.roundTrip(); err == nil {
			k.replies <- rtt
		}
	})
}

// CertificateWarning is how long before the end of a certificate the warning comes.
const CertificateWarning = 30 * time.Minute

// warnCertificateEnds warns that the certificate expires: the connection stays, but
// cannot be restored without a new one.
func (k *keepalive) warnCertificateEnds() {
	h, at := k.host, k.c.certificateEnds
	text := fmt.Sprintf("your certificate expires at %s; after that, a lost connection needs a new one", at.Format(time.TimeOnly))
	h.log.Warn("certificate ends soon", "at", at)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.warnLocked(text) {
		h.publishLocked()
	}
}

var errAddressGone = errors.New("this computer no longer has the address of the connection")

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
	for _, user := range h.pool.sharing.usersOf(h) {
		user.stopSharing(c, why)
	}
	h.wake()
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
	k.reads = reads                          // without the address, these are bytes that were on their way
	if c.ownStanding() != standingReplaced { // a laptop may be without a network for days, and replies are noticed at once
		k.stall.timer.Reset(min(max(stallCheck, now.Sub(last)/20), slowCheck))
		return
	}
	k.stall.timer.Reset(stallCheck)
	k.replaced = cmp.Or(k.replaced, now)
	switch silence := now.Sub(lastOf(last, k.replaced)); {
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
	back := h.conns.aside[c] && f.live == nil && f.wanted
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
	for _, user := range h.pool.sharing.usersOf(h) {
		user.shareAgain(c)
	}
	h.wake()
}

const (
	// stallCheck is how often a connection is checked on which a reply is due.
	stallCheck = 250 * time.Millisecond
	// slowCheck is how often one is that has been silent for long.
	slowCheck = 5 * time.Second
)

// stall finds out that a connection does not respond, while a client or a keepalive
// waits for a reply. It does not run otherwise. It does not close the connection: what
// TCP survives must not cost the user a login.
type stall struct {
	timer *time.Timer // runs while a reply is due
	due   bool

	began    time.Time // when the first reply was due
	ended    time.Time // when none was due any more
	unacked  time.Time // when bytes of ours were last on their way
	segments uint64    // received by then
	segment  time.Time // when one was last found to have come
	read     time.Time // when bytes were last read, as of the last check
	noticed  time.Time // when the connection was found not to respond; zero: it responds
	loss     tcpinfo.LossMeter
}

func newStall(c *conn) stall {
	s := stall{timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	if info, ok := tcpinfo.Read(c.wire.Conn); ok {
		s.loss.Add(info, time.Now())
	}
	return s
}

// expectReply has the connection checked until the reply has come.
func (k *keepalive) expectReply(now time.Time) {
	s := &k.stall
	if s.due || k.c.master != nil { // the ssh program has its own keepalive
		return
	}
	s.due = true
	// A client that gives up soon and tries again still waits for the same.
	if k.c.wire.lastHeard().After(s.began) || now.Sub(s.ended) >= k.c.limits.ProbeAfter {
		s.began = now
	}
	k.c.clients.checked.Store(true)
	s.timer.Reset(stallCheck)
}

// checkStall checks the connection once. It returns since when the connection does not
// respond; zero: it does.
func (k *keepalive) checkStall(now time.Time) (since time.Time) {
	s, l, last := &k.stall, &k.c.limits, k.c.wire.lastHeard()
	heard := last.After(s.read)
	s.read = last
	info, known := tcpinfo.Read(k.c.wire.Conn)
	if known && info.Received != s.segments {
		s.segments, s.segment = info.Received, now
	}
	if known && heard {
		s.loss.Add(info, now)
	}
	if heard && last.After(s.noticed) {
		s.noticed = time.Time{}
	}
	if !k.replyDue(now) {
		return time.Time{}
	}
	s.timer.Reset(stallCheck)

	quiet, limit := lastOf(last, s.began, s.unacked), l.Unanswered
	if known && info.Unacked {
		s.unacked = now
		quiet, limit = lastOf(last, s.began, s.segment), l.Unacknowledged
	} else if !k.waiting && (now.Sub(quiet) >= l.ProbeAfter || !s.noticed.IsZero()) {
		k.inUse = true
		k.sendRequest()
	}
	if s.loss.Lossy() {
		limit = max(limit, l.LossyUnanswered)
	}
	if s.noticed.IsZero() && now.Sub(quiet) >= limit {
		s.noticed = now
	}
	if s.noticed.IsZero() {
		return time.Time{}
	}
	return lastOf(last, s.began)
}

// replyDue reports whether something still waits for a reply. If not, the checks end.
func (k *keepalive) replyDue(now time.Time) bool {
	s := &k.stall
	waits := func() bool { return k.c.clients.active(now, k.c.limits.InUse) }
	if !s.noticed.IsZero() || k.waiting || waits() {
		return true
	}
	k.c.clients.checked.Store(false)
	if waits() { // it has sent just before, and found that the connection is checked
		k.c.clients.checked.Store(true)
		return true
	}
	s.due, s.ended = false, now
	return false
}

// showStall shows whether the connection responds. One that does not, and can be restored
// without the user, is set aside once a new login is due.
func (k *keepalive) showStall(now time.Time) {
	h, c := k.host, k.c
	since := k.checkStall(now)
	silent := !since.IsZero() && h.restoredSilently()
	if c.setStalled(since, !silent) {
		if since.IsZero() {
			h.log.Info("the host responds again")
		} else {
			h.log.Warn("the host does not respond", "since", since, "lossy", k.stall.loss.Lossy())
		}
		h.refresh()
		for _, user := range h.pool.sharing.usersOf(h) {
			user.refresh() // it may share the connection
		}
	}
	if silent && now.Sub(k.stall.noticed) >= c.limits.ReplaceUnanswered && k.loginDue(now) {
		k.doubt(fmt.Errorf("no response for %s", api.DurationText(now.Sub(since))))
	}
}

// loginDue reports whether a login now keeps the distance to the last one.
func (k *keepalive) loginDue(now time.Time) bool {
	h := k.host
	h.mu.Lock()
	defer h.mu.Unlock()
	return !now.Before(h.facts.tries.NextLogin(h.retryLimitsLocked()))
}

// lastOf is the latest of some times.
func lastOf(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
