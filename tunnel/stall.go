package tunnel

import (
	"fmt"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/tcpinfo"
)

const (
	// stallCheck is how often a connection is checked on which a reply is due.
	stallCheck = 250 * time.Millisecond
	// slowCheck is how often one is that has been silent for long.
	slowCheck = 5 * time.Second
)

// stall finds out that a connection does not respond, while a client or a keepalive
// waits for a reply. It does not run otherwise. It does not close the connection: what
// TCP survives must not cost a person a login.
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
	if info, ok := c.wire.tcpInfo(); ok {
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
	if last, _ := k.c.wire.heard(); last.After(s.began) || now.Sub(s.ended) >= k.c.limits.ProbeAfter {
		s.began = now
	}
	k.c.clients.checked.Store(true)
	s.timer.Reset(stallCheck)
}

// checkStall checks the connection once. It returns since when the connection does not
// respond; zero: it does.
func (k *keepalive) checkStall(now time.Time) (since time.Time) {
	s, l := &k.stall, &k.c.limits
	last, _ := k.c.wire.heard()
	heard := last.After(s.read)
	s.read = last
	info, known := k.c.wire.tcpInfo()
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

	quiet, limit := latest(last, s.began, s.unacked), l.Unanswered
	if known && info.Unacked {
		s.unacked = now
		quiet, limit = latest(last, s.began, s.segment), l.Unacknowledged
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
	return latest(last, s.began)
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
// without a person, is set aside once a new login is due.
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

// latest is the latest of some times.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
