package tunnel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// serve turns wishes into a connection until ctx ends.
func (h *Host) serve(ctx context.Context) {
	defer h.leave()
	for ctx.Err() == nil {
		switch move, until := h.next(time.Now()); move {
		case moveTry:
			h.try(ctx)
		case moveHold:
			h.hold(ctx)
		case moveWait:
			h.sleep(ctx, until)
		case moveRest:
			h.pool.giveBack(h)
			h.sleep(ctx, time.Time{})
		}
	}
}

// move is what a host does next.
type move int

const (
	moveWait move = iota
	moveTry
	moveHold
	moveRest // not wanted, or stopped with nobody waiting
)

// next decides what to do now, by the rules that keep a person from being locked
// out. A wait without an end is until the wishes change.
func (h *Host) next(now time.Time) (move, time.Time) {
	silent := h.pool.o.Memory.Silent(h.name)
	mayRide := h.mayRide()
	newLent := h.newLent()
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	if f.live != nil {
		return moveHold, time.Time{}
	}
	if !f.wanted || f.stop != nil && h.leases == 0 && h.onlyLeasedLocked() {
		return moveRest, time.Time{}
	}
	if f.stop != nil {
		switch stopped := f.stop.until.IsZero() || now.Before(f.stop.until); {
		case stopped && mayRide && newLent != nil:
			h.socket = *newLent
			return moveTry, time.Time{} // which logs in nowhere
		case stopped && mayRide:
			return moveWait, sooner(now, f.stop.until)
		case stopped:
			return moveWait, f.stop.until
		}
		f.stop = nil
	}
	at := f.nextTry
	if !now.Before(f.attended) {
		if !silent && !mayRide {
			f.stop = &stop{state: api.HostNeedsLogin, why: h.mayAsk()}
			h.enterLocked()
			return moveWait, time.Time{}
		}
		if spaced := f.lastLogin.Add(h.pool.o.Limits.LoginSpacing); !f.lastLogin.IsZero() && spaced.After(at) {
			at = spaced
		}
	}
	if now.Before(at) {
		f.nextTry = at
		h.enterLocked()
		return moveWait, at
	}
	return moveTry, time.Time{}
}

// mayRide reports whether the host may be reached without a login of ours: by the
// person's own connection.
func (h *Host) mayRide() bool {
	var s sshconfig.Settings
	h.pool.o.Preset(h.name, &s)
	return s.ReuseMaster
}

// mayAsk is the error of a login that nobody is there for.
func (h *Host) mayAsk() *api.Error {
	return h.needsPerson("the login may ask for a password, a code or a touch", nil)
}

// needsPerson is the error of a login that only a person can do.
func (h *Host) needsPerson(why string, cause error) *api.Error {
	return &api.Error{
		Code:    api.CodeNeedsPerson,
		Message: fmt.Sprintf("%s needs you: %s", h.label(), why),
		Hint:    "run `tunctl login " + h.name + "` in a terminal",
		Err:     classNeedsPerson.of(cause),
	}
}

// sleep waits until a time, if any, the next wish, or the end.
func (h *Host) sleep(ctx context.Context, until time.Time) {
	var ring <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		ring = timer.C
	}
	select {
	case <-ctx.Done():
	case <-h.kick:
	case <-ring:
	}
}

// try connects once.
func (h *Host) try(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := h.begin(cancel)
	if t == nil {
		return
	}
	c, err := t.connect(ctx)
	h.finish(t, c, err)
}

// begin enters the try, unless the wish ended meanwhile.
func (h *Host) begin(cancel context.CancelFunc) *attempt {
	silent := h.pool.o.Memory.Silent(h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	if !f.wanted {
		return nil
	}
	h.cancel = cancel
	f.trying = "reading the ssh settings"
	h.enterLocked()
	attended := time.Now().Before(f.attended)
	return &attempt{
		host: h, pool: h.pool, log: h.log,
		attended: attended, client: f.client, banned: time.Now().Before(f.ban), lentOnly: f.stop != nil || !attended && !silent,
	}
}

// step says what a try is doing now.
func (h *Host) step(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.trying = what
	h.enterLocked()
}

// setAsking says which kind of question a try waits for an answer to; "" for none.
func (h *Host) setAsking(kind api.PromptKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.asking = kind
	h.enterLocked()
}

// lastClient is the client through which a person last asked for the host.
func (h *Host) lastClient() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts.client
}

// finish draws the conclusions of a try.
func (h *Host) finish(t *attempt, c *conn, err error) {
	h.mu.Lock()
	f := &h.facts
	f.trying, f.asking, h.cancel = "", "", nil
	if !t.loginAt.IsZero() {
		f.lastLogin = t.loginAt
	}
	if !f.wanted {
		h.enterLocked()
		h.mu.Unlock()
		if c != nil && c.owner == h {
			c.close(nil)
		}
		return
	}
	if err == nil {
		f.live = c
		f.failure, f.stop, f.refusals, f.ban = nil, nil, 0, time.Time{}
		f.nextTry, f.attended = time.Time{}, time.Time{}
	} else {
		h.failedLocked(t, asError(err))
	}
	h.enterLocked()
	h.mu.Unlock()
}

// failedLocked decides between another try and a stop, by the failure's class alone.
func (h *Host) failedLocked(t *attempt, why *api.Error) {
	f, l, now := &h.facts, &h.pool.o.Limits, time.Now()
	if t.lentOnly && f.stop != nil {
		return // it stands as before
	}
	h.log.Warn("connecting failed", "code", why.Code, "err", why.Message)
	f.failure = why
	f.failures++
	f.nextTry = now.Add(backoff(f.failures, l.RetryMin, l.RetryMax))
	attended := now.Before(f.attended)
	class := t.classOf(why)
	switch {
	case class == classBanned, class == classClosedPort && f.refusals > 0:
		f.ban = now.Add(l.BanWait)
		f.stop = &stop{api.HostBlocked, h.suspectedBan(why, f.ban), f.ban}
	case class == classRefused:
		f.refusals++
		if t.attended || f.refusals >= l.Refusals || h.onlyLeasedLocked() {
			f.stop = &stop{state: api.HostBlocked, why: why}
		}
	case class == classNeedsPerson && attended && !t.attended:
		f.nextTry = now // a person came while we tried without one
	case class == classNeedsPerson:
		f.stop = &stop{state: api.HostNeedsLogin, why: why}
	case class == classPermanent:
		f.stop = &stop{state: api.HostBlocked, why: why}
	}
	if f.stop != nil {
		f.attended = time.Time{}
	}
}

func (h *Host) suspectedBan(why *api.Error, until time.Time) *api.Error {
	return &api.Error{
		Code:    api.CodeUnreachable,
		Message: fmt.Sprintf("%s may have banned this address after refused logins (%s); no further tries until %s", h.label(), why.Message, until.Format(time.TimeOnly)),
		Hint:    "a network change or the site's support can lift a ban; `tunctl login " + h.name + "` tries now",
		Err:     why,
	}
}

// lost draws the conclusions of a connection's end.
func (h *Host) lost(c *conn) {
	onlyLeased := h.onlyLeased()
	h.mu.Lock()
	defer h.mu.Unlock()
	f, l := &h.facts, &h.pool.o.Limits
	f.live = nil
	h.probe = false
	byUs := h.ended == c // whoever wants the host since then wants another
	if onlyLeased && !h.asked && !byUs {
		h.endWishLocked() // its users have lost the connection, too
	}
	if f.wanted && !byUs {
		f.failure = &api.Error{Code: api.CodeUnreachable, Message: fmt.Sprintf("the connection to %s was lost: %v", h.label(), c.reason()), Err: classPassing.of(c.reason())}
		f.failures++
		if time.Since(c.since) >= l.StableAfter {
			f.failures = 0
		}
		f.nextTry = time.Time{}
		if f.failures > 0 {
			f.nextTry = time.Now().Add(backoff(f.failures, l.RetryMin, l.RetryMax))
		}
	}
	h.enterLocked()
}

// leave is the end of the host's goroutine.
func (h *Host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.wanted, h.facts.trying, h.facts.asking = false, "", ""
	h.enterLocked()
}

// asError is err as an *api.Error, which every failed try should have.
func asError(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	err = api.RemoteError(err)
	return &api.Error{Code: api.CodeUnreachable, Message: err.Error(), Err: err}
}
