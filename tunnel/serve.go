package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/retry"
)

// serve connects the host whenever it is wanted, until ctx ends.
func (h *Host) serve(ctx context.Context) {
	defer h.change(func(f *facts) { f.wanted, f.trying, f.asking = false, "", "" })
	h.recallLogins()
	for ctx.Err() == nil {
		switch next := h.nextAction(time.Now()); next.Do {
		case retry.Try:
			h.try(ctx)
		case retry.Hold:
			h.hold(ctx)
		case retry.Wait, retry.NeedLogin:
			ctxtime.SleepUntil(ctx, next.Until, h.woken)
		case retry.Idle:
			h.pool.sharing.disown(h, "") // its settings may have changed when it is next wanted
			for _, other := range h.pool.allHosts() {
				other.removeUser(h)
			}
			ctxtime.SleepUntil(ctx, time.Time{}, h.woken)
		}
	}
}

// nextAction decides what to do now, and enters what follows for the host's state.
func (h *Host) nextAction(now time.Time) retry.Action {
	silent := h.pool.o.Memory.Known(h.name).Silent
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	next := retry.Next(f.tries, retry.Host{
		Wanted: f.wanted, Connected: f.live != nil, Silent: silent,
	}, h.retryLimitsLocked(), now)
	switch next.Do {
	case retry.NeedLogin:
		f.tries.Stop = &retry.Stop{State: api.HostNeedsLogin, Why: needsUser(h.name, "the login may ask for a password, a code or a touch", nil)}
		if f.failure != nil && isUnknownName(f.failure) { // no login helps
			f.tries.Stop = &retry.Stop{State: api.HostBlocked, Why: f.failure}
		}
		h.enterLocked()
	case retry.Try, retry.Wait:
		f.tries.EndBan(now)
		if next.Do == retry.Wait && f.tries.Stop == nil {
			f.tries.NextTry = next.Until
			h.enterLocked()
		}
	}
	return next
}

// needsUser is the error of a login to a host that only the user can complete.
func needsUser(host, why string, cause error) *api.Error {
	return failure.NeedsUser.Errorf(api.CodeNeedsPerson, cause, "%s needs you: %s", api.HostLabel(host), why).
		WithHint("run `tunctl login %s` in a terminal", host)
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
			h.pool.wg.Go(func() { newKeepalive(h, c).keep(serving) })
			h.mu.Lock()
			others := slices.Collect(maps.Keys(h.conns.aside))
			h.mu.Unlock()
			for _, other := range others {
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
	now := time.Now()
	f.trying, f.loggingIn = "reading the ssh settings", false
	f.tries.Begin(now)
	h.enterLocked()
	t := newAttempt(h)
	t.ask.attended, t.ask.client = f.tries.IsAttended(now), f.client
	t.began, t.banned = now, now.Before(f.tries.Ban)
	t.waited = !t.ask.attended && f.tries.IsWatched(now, h.retryLimitsLocked())
	return t
}

// setAsking records which kind of question the try waits for, "" for none, and the web
// addresses in it.
func (h *Host) setAsking(kind api.PromptKind, links []string) {
	h.change(func(f *facts) { f.asking, f.links = kind, links })
}

// finishTry records the result of a try, and reports whether its connection became the
// host's.
func (h *Host) finishTry(t *attempt, c *conn, err error) (used bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	f.trying, f.asking, f.links, h.cancel = "", "", nil, nil
	defer h.enterLocked()
	if h.recheckDue {
		h.recheckDue = false
		h.pool.Reload()
	}
	if !t.loginAt.IsZero() {
		f.tries.LastLogin = t.loginAt
	}
	if !f.wanted {
		return false
	}
	if err == nil {
		f.tries.Succeeded()
	}
	back := f.live != nil // the old one responds again
	switch {
	case err != nil && (!back || !t.loginAt.IsZero()):
		why := asError(err)
		class := t.classOf(why)
		attended := t.ask.attended && (class != failure.NeedsUser || t.ask.client == f.client) // who came since was not asked
		h.failedLocked(retry.FailedTry{
			Class: class, Why: why, Began: t.began, Attended: attended, Login: !t.loginAt.IsZero(), Unanswered: t.unanswered,
		})
	case err != nil || back && f.live != c:
	default:
		for old := range h.conns.aside { // before anybody sees that the host is connected
			old.setStanding(standingReplaced)
		}
		h.connectedLocked(c)
		return true
	}
	return false
}

// connectionLost records the end of a connection.
func (h *Host) connectionLost(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.wake()
	delete(h.conns.aside, c)
	if h.facts.live != c {
		return
	}
	h.facts.live = nil
	h.lostLocked(c, nil)
}

// Waiting says that somebody waits for the host: a client that is held, an open waiting
// page, a command that shows it. With user set it is an act of the user, and not only
// a program that does not give up. Until some time after both (Limits.WatchedFor), a dial
// that nobody answers is repeated sooner than usual. It causes no login that would not
// happen anyway.
func (h *Host) Waiting(person bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.tries.Watch(time.Now(), person)
	if h.facts.live == nil && h.facts.tries.AwaitsWatchedTry() {
		h.wake()
	}
}

// asError returns err as an *api.Error.
func asError(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	err = api.RemoteError(err)
	return api.Errorf(api.CodeUnreachable, "%w", err)
}

// recallLogins makes the limits on logins continue where the last process ended.
func (h *Host) recallLogins() {
	known := h.pool.o.Memory.Known(h.name).Logins
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts.tries
	switch stopped := f.Recall(known, h.retryLimitsLocked(), time.Now()); {
	case !stopped:
	case !f.Stop.Until.IsZero():
		why := api.Errorf(api.CodeUnreachable, "%s", cmp.Or(known.Why, "seen before the agent was restarted"))
		f.Stop.Why = suspectedBan(h.name, why, f.Stop.Until)
	default:
		f.Stop.Why = failure.Refused.Errorf(api.CodeAuth, nil, "%s",
			cmp.Or(known.Why, fmt.Sprintf("%s refused %d logins before the agent was restarted", h.label(), f.Refusals))).
			WithHint("`tunctl login %s` tries again", h.name)
	}
	h.enterLocked()
}

// saveLogins saves what the limits on logins count, with a change.
func (h *Host) saveLogins(changeLocked func(*api.Logins)) {
	if h.behind != "" {
		return
	}
	h.mu.Lock()
	l := h.facts.tries.Logins()
	changeLocked(&l)
	h.mu.Unlock()
	h.pool.o.Memory.Remember(h.name, func(k *api.Known) { k.Logins = l })
}
