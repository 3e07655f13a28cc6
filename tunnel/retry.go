package tunnel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// serve connects the host whenever it is wanted, until ctx ends.
func (h *Host) serve(ctx context.Context) {
	defer h.stopServing()
	h.recallLogins()
	for ctx.Err() == nil {
		h.closeDropped()
		switch next, until := h.nextAction(time.Now()); next {
		case actionTry:
			h.try(ctx)
		case actionHold:
			h.hold(ctx)
		case actionWait:
			h.sleep(ctx, until)
		case actionIdle:
			h.closeConnections()
			h.pool.releaseHosts(h)
			h.sleep(ctx, time.Time{})
		}
	}
}

// action is what a host does next.
type action int

const (
	actionWait action = iota
	actionTry
	actionHold
	actionIdle // not wanted, or stopped with nobody waiting
)

// nextAction decides what to do now, by the rules that keep a person from being locked
// out. A zero time means: wait until something changes.
func (h *Host) nextAction(now time.Time) (action, time.Time) {
	silent := h.pool.o.Memory.Silent(h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	if f.live != nil && f.wanted {
		return actionHold, time.Time{}
	}
	if !f.wanted || f.stop != nil && h.leases == 0 && h.onlyLeasedLocked() {
		return actionIdle, time.Time{}
	}
	if f.stop != nil {
		if f.stop.until.IsZero() || now.Before(f.stop.until) {
			return actionWait, f.stop.until
		}
		f.stop = nil
	}
	at := f.nextTry
	if f.waited(now, h.pool.o.Limits.WatchedRetryFor) && !f.waitedTry.IsZero() && f.waitedTry.Before(at) {
		at = f.waitedTry
	}
	if !now.Before(f.attended) {
		if !silent {
			f.stop = &stop{state: api.HostNeedsLogin, why: h.needsPerson("the login may ask for a password, a code or a touch", nil)}
			h.enterLocked()
			return actionWait, time.Time{}
		}
		at = latest(at, h.nextLoginLocked())
	}
	if now.Before(at) {
		f.nextTry = at
		h.enterLocked()
		return actionWait, at
	}
	return actionTry, time.Time{}
}

// nextLoginLocked is when the next automatic login may begin at the earliest.
func (h *Host) nextLoginLocked() (at time.Time) {
	f := &h.facts
	if !f.lastLogin.IsZero() {
		at = f.lastLogin.Add(h.limitsLocked().LoginSpacing)
	}
	if !f.lastTry.IsZero() {
		at = latest(at, f.lastTry.Add(h.used.RetryMin)) // the site's wish, which a network change does not shorten
	}
	return at
}

// limitsLocked are the pool's limits, or stricter ones of the host's site.
func (h *Host) limitsLocked() Limits { return h.pool.o.Limits.within(&h.used) }

// needsPerson is the error of a login that only a person can complete.
func (h *Host) needsPerson(why string, cause error) *api.Error {
	return failure.NeedsUser.Errorf(api.CodeNeedsPerson, cause, "%s needs you: %s", h.label(), why).
		WithHint("run `tunctl login %s` in a terminal", h.name)
}

// sleep waits until a time, if not zero, or until the host is woken, or ctx ends.
func (h *Host) sleep(ctx context.Context, until time.Time) {
	var ring <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		ring = timer.C
	}
	select {
	case <-ctx.Done():
	case <-h.woken:
	case <-ring:
	}
}

// hold waits until the connection is no longer the host's.
func (h *Host) hold(ctx context.Context) {
	c, err := h.current()
	if err != nil {
		return
	}
	var sharedEnd <-chan struct{} // its owner keeps it
	if c.owner != h {
		sharedEnd = c.done
	}
	select {
	case <-sharedEnd:
		h.connectionLost(c)
	case <-ctx.Done():
	case <-h.woken:
	}
	h.mu.Lock()
	ended := h.ended == c && h.facts.live == c
	h.mu.Unlock()
	if ended {
		h.closeConnections()
	}
}

// closeConnections closes the host's connections.
func (h *Host) closeConnections() {
	h.mu.Lock()
	for c := range h.aside {
		h.aside[c] = false
	}
	live := h.facts.live
	h.mu.Unlock()
	h.closeDropped()
	if live != nil {
		if live.owner == h {
			live.close(nil)
		}
		h.connectionLost(live)
	}
}

// try connects once.
func (h *Host) try(serving context.Context) {
	ctx, cancel := context.WithCancel(serving)
	defer cancel()
	t := h.beginTry(cancel)
	if t == nil {
		return
	}
	c, err := t.connect(ctx)
	used := h.finishTry(t, c, err)
	if c != nil && c.owner == h {
		if used {
			h.pool.wg.Go(func() { h.keep(serving, c) })
			for _, other := range h.othersNow() {
				other.replace()
			}
		} else {
			c.close(nil)
		}
	}
	h.saveLogins(func(*api.Logins) {})
}

// beginTry starts a try, unless the host is no longer wanted.
func (h *Host) beginTry(cancel context.CancelFunc) *attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	if !f.wanted {
		return nil
	}
	h.cancel = cancel
	f.trying, f.loggingIn, f.lastTry = "reading the ssh settings", false, time.Now()
	h.enterLocked()
	now := time.Now()
	attended := now.Before(f.attended)
	return &attempt{
		host: h, pool: h.pool, log: h.log, began: now,
		attended: attended, client: f.client, banned: now.Before(f.ban),
		waited: !attended && f.waited(now, h.pool.o.Limits.WatchedRetryFor),
	}
}

// step records what the try is doing now.
func (h *Host) step(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.trying = what
	h.enterLocked()
}

// setAsking records which kind of question the try waits for, "" for none, and the web
// addresses in it.
func (h *Host) setAsking(kind api.PromptKind, links []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.asking, h.facts.links = kind, links
	h.enterLocked()
}

// lastClient is the client that a person last used to ask for the host.
func (h *Host) lastClient() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts.client
}

// finishTry records the result of a try, and reports whether its connection became the
// host's.
func (h *Host) finishTry(t *attempt, c *conn, err error) (used bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	f.trying, f.asking, f.links, h.cancel = "", "", nil, nil
	defer h.enterLocked()
	if !t.loginAt.IsZero() {
		f.lastLogin = t.loginAt
	}
	if !f.wanted {
		return false
	}
	if err == nil {
		f.stop, f.refusals, f.ban, f.attended = nil, 0, time.Time{}, time.Time{}
	}
	back := f.live != nil // the old one responds again
	switch {
	case err != nil && (!back || !t.loginAt.IsZero()):
		h.failedLocked(t, asError(err))
	case err != nil || back && f.live != c:
	default:
		for old := range h.aside { // before anybody sees that the host is connected
			old.setStanding(standingReplaced)
		}
		h.connectedLocked(c)
		return true
	}
	return false
}

// failedLocked decides between another try and a stop, only by the class of the failure.
func (h *Host) failedLocked(t *attempt, why *api.Error) {
	f, l, now := &h.facts, h.limitsLocked(), time.Now()
	h.log.Warn("connecting failed", "code", why.Code, "err", why.Message)
	f.failure = why
	f.failed(now, !t.loginAt.IsZero(), &l)
	if f.lostAt.IsZero() {
		f.lostAt = t.began
	}
	f.waitedTry = time.Time{}
	if t.unanswered {
		f.waitedTry = t.began.Add(waitedPause(now.Sub(f.lostAt), l.WatchedRetryMin, l.WatchedRetryMax))
	}
	attended := now.Before(f.attended)
	class := t.classOf(why)
	switch {
	case class == failure.Banned, class == failure.ClosedPort && f.refusals > 0:
		f.ban = now.Add(l.BanWait)
		f.stop = &stop{api.HostBlocked, h.suspectedBan(why, f.ban), f.ban}
	case class == failure.Refused:
		f.refusals++
		if t.attended || f.refusals >= l.Refusals || h.onlyLeasedLocked() {
			f.stop = &stop{state: api.HostBlocked, why: why}
		}
	case class == failure.NeedsUser && attended && !t.attended:
		f.nextTry = now // a person acted during a try that did not ask
	case class == failure.NeedsUser:
		f.stop = &stop{state: api.HostNeedsLogin, why: why}
	case class == failure.Permanent:
		f.stop = &stop{state: api.HostBlocked, why: why}
	}
	if f.stop != nil {
		f.attended = time.Time{}
	}
}

func (h *Host) suspectedBan(why *api.Error, until time.Time) *api.Error {
	return api.Errorf(api.CodeUnreachable, "%s may have banned this address after refused logins (%s); no further tries until %s",
		h.label(), why.Message, until.Format(time.TimeOnly)).Because(why).
		WithHint("a network change or the site's support can lift a ban; `tunctl login %s` tries now", h.name)
}

// connectionLost records the end of a connection.
func (h *Host) connectionLost(c *conn) {
	onlyLeased := h.onlyLeased()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.wake()
	delete(h.aside, c)
	if h.facts.live != c {
		return
	}
	h.facts.live = nil
	if onlyLeased && !h.asked && h.ended != c {
		h.dropWantedLocked() // the users of the leases lost it too
	}
	h.lostLocked(c, nil)
}

// lostLocked records that the host lost its connection: it has ended or, if a reason is
// given, does not respond.
func (h *Host) lostLocked(c *conn, silent error) {
	f, l, now := &h.facts, h.limitsLocked(), time.Now()
	f.live, h.lost = nil, c
	byUs := h.ended == c // who wants the host since then wants a new connection
	if f.wanted && !byUs {
		why := silent
		text := "%s does not respond: %v"
		if silent == nil {
			text, why = "the connection to %s was lost: %v", c.endReason()
		}
		f.failure = failure.Passing.Errorf(api.CodeUnreachable, why, "%s", fmt.Sprintf(text, h.label(), why))
		f.lostAt = now
		if c.clients.sentWithin(now, l.InUse) {
			f.noteWaiting(now, true)
		}
		if now.Sub(c.since) >= l.StableAfter {
			f.forgetFailures()
		} else {
			f.failed(now, silent == nil, &l)
		}
	}
	h.enterLocked()
}

// stopServing is called when the host's goroutine ends.
func (h *Host) stopServing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.wanted, h.facts.trying, h.facts.asking = false, "", ""
	h.enterLocked()
}

// backoff is the wait before the next try after so many failures. It doubles from least
// to most, minus up to a fifth at random, so that many laptops do not return at the same
// moment.
func backoff(failures int, least, most time.Duration) time.Duration {
	wait := most
	if shift := failures - 1; shift < 30 {
		wait = min(most, least<<max(shift, 0))
	}
	return wait - rand.N(wait/5+1) //nolint:gosec // jitter is no secret
}

// waitedPause is the time between the beginnings of two tries while somebody waits: a
// tenth of the time since the loss, within bounds. It is shortened as backoff is.
func waitedPause(lost, least, most time.Duration) time.Duration {
	wait := min(max(lost/10, least), most)
	return wait - rand.N(wait/5+1) //nolint:gosec // jitter is no secret
}

// waitingLasts is how long somebody counts as waiting after the last sign of it: a held
// connection is held for half a minute, and a waiting page polls more often.
const waitingLasts = 45 * time.Second

// Waiting says that somebody waits for the host: a client that is held, an open waiting
// page, a command that shows it. With person set it is an act of a person, and not only
// a program that does not give up. Until some time after both (Limits.WatchedRetryFor), a dial
// that nobody answers is repeated sooner than usual. It causes no login that would not
// happen anyway.
func (h *Host) Waiting(person bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.noteWaiting(time.Now(), person)
	if h.facts.live == nil && !h.facts.waitedTry.IsZero() {
		h.wake()
	}
}

func (f *facts) noteWaiting(now time.Time, person bool) {
	f.waitedUntil = now.Add(waitingLasts)
	if person {
		f.person = now
	}
}

// waited reports whether somebody waits, and a person acted within a time.
func (f *facts) waited(now time.Time, within time.Duration) bool {
	return now.Before(f.waitedUntil) && now.Sub(f.person) < within
}

// asError returns err as an *api.Error.
func asError(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	err = api.RemoteError(err)
	return api.Errorf(api.CodeUnreachable, "%w", err)
}
