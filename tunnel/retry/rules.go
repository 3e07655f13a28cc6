// Package retry decides when a host is tried again, by rules that keep the user from being
// locked out: sites ban addresses and accounts after refused logins. [Facts] are what the
// tries so far have left; rules say what is done next, and consequences what follows a
// failed try. Of each table the first row that applies decides.
//
// It is a function of facts and times: there is no clock, no lock and no I/O in it. Package
// tunnel tells it what happened and does what it says.
package retry

import (
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// Limits are the waits and counts of the rules.
type Limits struct {
	RetryMin, RetryMax time.Duration // of the backoff between two tries
	SitePause          time.Duration // between two tries: the site's wish, which a network change does not shorten
	LoginSpacing       time.Duration // between two automatic logins
	StableAfter        time.Duration // a connection that lasted as long ends the backoff
	Refusals           int           // that many refused logins stop all automatic tries
	BanWait            time.Duration // after a suspected ban, and for how long refused and unfinished logins count

	// While somebody waits for the host, until WatchedFor after the last sign of the user:
	// the time between two dials that nobody answered.
	WatchedMin, WatchedMax, WatchedFor time.Duration
}

// Host is what decides about the next action besides the tries so far.
type Host struct {
	Wanted    bool // by the user, the agent, or another host
	Connected bool
	Silent    bool // the last login asked nobody
}

// Do is what a host does next.
type Do int

// The actions.
const (
	Wait      Do = iota // until a time, or until something changes
	Try                 // dial and log in
	Hold                // the connection
	Idle                // close all connections, and wait
	NeedLogin           // stop until the user acts, since only they can log in
)

// Action is what a host does next, and why.
type Action struct {
	Do    Do
	Until time.Time // of a Wait; zero: until something changes
	Rule  string
}

// situation is what the rules see.
type situation struct {
	Facts
	host   Host
	limits Limits
	now    time.Time
}

func (s *situation) stopped() bool {
	return s.Stop != nil && (s.Stop.Until.IsZero() || s.now.Before(s.Stop.Until))
}

func (s *situation) attended() bool { return s.IsAttended(s.now) }

// rule is what a host does next if it applies.
type rule struct {
	name    string
	applies func(s *situation) bool
	do      Do
	until   func(s *situation) time.Time // nil: until something changes
}

var rules = []rule{
	{"the host is connected", func(s *situation) bool { return s.host.Wanted && s.host.Connected }, Hold, nil},
	{"nobody wants the host", func(s *situation) bool { return !s.host.Wanted }, Idle, nil},
	{"it is stopped until the user acts, or until a suspected ban is over", (*situation).stopped, Wait, func(s *situation) time.Time { return s.Stop.Until }},
	{"the login may need the user, who is not here", func(s *situation) bool { return !s.attended() && !s.host.Silent }, NeedLogin, nil},
	{"a pause is not over", func(s *situation) bool { return s.now.Before(s.pauseEnd()) }, Wait, (*situation).pauseEnd},
	{"nothing forbids it", func(*situation) bool { return true }, Try, nil},
}

// pauses are what a try waits for: the latest of them.
var pauses = []struct {
	name  string
	until func(s *situation) time.Time
}{
	{"after failures in a row: the backoff; a shorter one while somebody waits and no dial was answered", func(s *situation) time.Time {
		if s.IsWatched(s.now, s.limits) && !s.watchedTry.IsZero() && s.watchedTry.Before(s.NextTry) {
			return s.watchedTry
		}
		return s.NextTry
	}},
	{"after a login, and after any try at a site that asks for that: their spacing, unless the user is here", func(s *situation) time.Time {
		if s.attended() {
			return time.Time{}
		}
		return s.NextLogin(s.limits)
	}},
}

func (s *situation) pauseEnd() (end time.Time) {
	for _, p := range pauses {
		end = latest(end, p.until(s))
	}
	return end
}

// Next is what a host does next.
func Next(f Facts, h Host, l Limits, now time.Time) Action {
	s := &situation{f, h, l, now}
	r := rules[slices.IndexFunc(rules, func(r rule) bool { return r.applies(s) })]
	a := Action{Do: r.do, Rule: r.name}
	if r.until != nil {
		a.Until = r.until(s)
	}
	return a
}

// FailedTry is how a try failed.
type FailedTry struct {
	Class      failure.Class
	Why        *api.Error
	Began      time.Time
	Attended   bool // it could ask the user
	Login      bool // the server saw a login
	Unanswered bool // a dial got no answer: the server saw nothing to count
}

// failed is what the consequences see.
type failed struct {
	FailedTry
	*Facts
	limits Limits
	now    time.Time
}

func (f *failed) is(c failure.Class) bool { return f.Class == c }

// isOurBan reports whether the server may refuse this address for refused logins of ours.
func (f *failed) isOurBan() bool {
	return f.is(failure.Banned) && !f.refused.IsZero() && f.now.Sub(f.refused) < f.limits.BanWait
}

// penaltyWaits are the waits while a server refuses this address for what others did: sshd
// does so for 15 s to 10 min by default.
var penaltyWaits = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// consequence is what follows a failed try if it applies.
type consequence struct {
	name    string
	applies func(f *failed) bool
	follows func(f *failed)
}

// What can follow: another try after the backoff or at once, or no automatic try until a
// suspected ban is over, or until the user acts.
var (
	tryLater        = func(*failed) {}
	tryNow          = func(f *failed) { f.NextTry = f.now }
	tryAfterPenalty = func(f *failed) {
		f.NextTry = f.now.Add(penaltyWaits[min(f.penalties, len(penaltyWaits)-1)])
		f.penalties++
	}
	stopByBan = func(f *failed) {
		f.Ban = f.now.Add(f.limits.BanWait)
		f.Stop = &Stop{State: api.HostBlocked, Why: f.Why, Until: f.Ban}
	}
	stopBlocked    = func(f *failed) { f.Stop = &Stop{State: api.HostBlocked, Why: f.Why} }
	stopNeedsLogin = func(f *failed) { f.Stop = &Stop{State: api.HostNeedsLogin, Why: f.Why} }
)

var consequences = []consequence{
	{"the server bans this address after refused logins", (*failed).isOurBan, stopByBan},
	{"the server refuses this address for a while, not for our logins", func(f *failed) bool { return f.is(failure.Banned) }, tryAfterPenalty},
	{"the port is closed after refused logins: a suspected ban", func(f *failed) bool { return f.is(failure.ClosedPort) && f.Refusals > 0 }, stopByBan},
	{"a login was refused in front of the user", func(f *failed) bool { return f.is(failure.Refused) && f.Attended }, stopBlocked},
	{"logins were refused too often", func(f *failed) bool { return f.is(failure.Refused) && f.Refusals >= f.limits.Refusals }, stopBlocked},
	{"only the user can log in, who came during the try", func(f *failed) bool { return f.is(failure.NeedsUser) && f.IsAttended(f.now) && !f.Attended }, tryNow},
	{"only the user can log in", func(f *failed) bool { return f.is(failure.NeedsUser) }, stopNeedsLogin},
	{"it fails until the user changes something", func(f *failed) bool { return f.is(failure.Permanent) }, stopBlocked},
	{"it may succeed later", func(*failed) bool { return true }, tryLater},
}

// Failed takes in a failed try; jitter is from [0, 1).
func (f *Facts) Failed(t FailedTry, l Limits, now time.Time, jitter float64) {
	f.countFailure(now, t.Login, l, jitter)
	if f.lostAt.IsZero() {
		f.lostAt = t.Began
	}
	f.watchedTry = time.Time{}
	if t.Unanswered {
		f.watchedTry = t.Began.Add(watchedPause(now.Sub(f.lostAt), l, jitter))
	}
	if t.Class == failure.Refused {
		f.Refusals++
		f.refused = now
	}
	if t.Class == failure.Passing && t.Login {
		f.unfinished = [3]time.Time{now, f.unfinished[0], f.unfinished[1]}
	}
	x := &failed{t, f, l, now}
	consequences[slices.IndexFunc(consequences, func(c consequence) bool { return c.applies(x) })].follows(x)
	if f.Stop != nil {
		f.attendedUntil = time.Time{}
	}
}
