// Package retry decides when a host is tried again, by rules that keep the user from being
// locked out: sites ban addresses and accounts after refused logins. [Facts] are what the
// tries so far have left; [Next] says what is done next, and [Facts.Failed] what follows a
// failed try.
//
// It is a function of facts and times: there is no clock, no lock and no I/O in it. Package
// tunnel tells it what happened and does what it says.
package retry

import (
	"cmp"
	"errors"
	"slices"
	"strings"
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
	Idle                // wait until it is wanted
	NeedLogin           // stop until the user acts, since only they can log in
)

// Action is what a host does next.
type Action struct {
	Do    Do
	Until time.Time // of a Wait; zero: until something changes
}

// Next is what a host does next.
func Next(f Facts, h Host, l Limits, now time.Time) Action {
	stopped := f.Stop != nil && (f.Stop.Until.IsZero() || now.Before(f.Stop.Until))
	pause := f.pauseEnd(l, now)
	switch {
	case !h.Wanted:
		return Action{Do: Idle}
	case h.Connected:
		return Action{Do: Hold}
	case stopped:
		return Action{Do: Wait, Until: f.Stop.Until}
	case !f.IsAttended(now) && !h.Silent:
		return Action{Do: NeedLogin}
	case now.Before(pause):
		return Action{Do: Wait, Until: pause}
	}
	return Action{Do: Try}
}

// pauseEnd is when nothing delays a try any more: the backoff after failures in a row, or a
// shorter one while somebody waits and no dial was answered; and, unless the user is here, the
// distance to the last login, and to any try at a site that asks for that.
func (f *Facts) pauseEnd(l Limits, now time.Time) time.Time {
	end := f.NextTry
	if f.IsWatched(now, l) && !f.watchedTry.IsZero() {
		end = earliest(end, f.watchedTry)
	}
	if !f.IsAttended(now) {
		end = latest(end, f.NextLogin(l))
	}
	return end
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

// penaltyWaits are the waits while a server refuses this address for what others did: sshd
// does so for 15 s to 10 min by default.
var penaltyWaits = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Failed takes in a failed try; jitter is from [0, 1).
func (f *Facts) Failed(t FailedTry, l Limits, now time.Time, jitter float64) {
	f.countFailure(now, t.Login, l, jitter)
	f.lostAt = cmp.Or(f.lostAt, t.Began)
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
	f.follow(t, l, now)
	if f.Stop != nil {
		f.attendedUntil = time.Time{}
	}
}

// follow decides what follows a failed try: another one after the backoff, unless a case says
// when, or that there is no automatic one until a suspected ban is over or the user acts.
func (f *Facts) follow(t FailedTry, l Limits, now time.Time) {
	blocked := &Stop{State: api.HostBlocked, Why: t.Why}
	banned := &Stop{State: api.HostBlocked, Why: t.Why, Until: now.Add(l.BanWait)}
	switch t.Class {
	case failure.Banned:
		if !f.refused.IsZero() && now.Sub(f.refused) < l.BanWait {
			f.Stop, f.Ban = banned, banned.Until
			return
		}
		f.NextTry = now.Add(penaltyWaits[min(f.penalties, len(penaltyWaits)-1)]) // not for logins of ours
		f.penalties++
	case failure.ClosedPort:
		if f.Refusals > 0 {
			f.Stop, f.Ban = banned, banned.Until
		}
	case failure.Refused:
		if t.Attended || f.Refusals >= l.Refusals {
			f.Stop = blocked
		}
	case failure.NeedsUser:
		if f.IsAttended(now) && !t.Attended { // the user came during the try
			f.NextTry = now
			return
		}
		f.Stop = &Stop{State: api.HostNeedsLogin, Why: t.Why}
	case failure.Permanent:
		f.Stop = blocked
	}
}

const (
	// attendedFor is how long after the user's action questions may be asked.
	attendedFor = 2 * time.Minute
	// watchedLasts is how long somebody counts as waiting after the last sign of it: a held
	// connection is held for half a minute, and a waiting page polls more often.
	watchedLasts = 45 * time.Second
	// maxWhy bounds the text that is remembered of a refusal, in bytes.
	maxWhy = 500
)

// Facts are what the tries of a host so far have left.
type Facts struct {
	Stop      *Stop     // why there are no more automatic tries; nil: there are
	Failures  int       // tries and short-lived connections in a row
	NextTry   time.Time // not before then, unless the user acts
	Refusals  int       // refused logins since the last good one
	Ban       time.Time // until then a ban is suspected
	LastLogin time.Time // when the last login began

	lastTry       time.Time     // when the last try began
	logins        loginFailures // those that are not about the way to the host
	unfinished    [3]time.Time  // when the last logins ended that were neither refused nor complete, the newest first
	refused       time.Time     // when a login was last refused
	penalties     int           // tries in a row at which the server refused this address
	attendedUntil time.Time     // until then the user may be asked
	lostAt        time.Time     // when the connection was lost, or the first try failed
	watchedUntil  time.Time     // until then somebody waits
	userSeen      time.Time     // the last sign of the user
	watchedTry    time.Time     // replaces NextTry while somebody waits; zero: it does not
	drops         int           // connections in a row that the host ended soon after the login
	kept          bool          // it once kept one for longer
}

// maxDrops in a row stop automatic tries: each is a login that leads nowhere.
const maxDrops = 3

// loginFailures are the failures that a network change does not excuse: the host has seen
// logins.
type loginFailures struct {
	count   int
	nextTry time.Time
}

// Stop ends all automatic tries, for good or until a time.
type Stop struct {
	State api.HostState // needs-login or blocked
	Why   *api.Error
	Until time.Time // of a suspected ban; zero: until the user acts
}

// IsAttended reports whether the user acted a short time ago, and may be asked.
func (f *Facts) IsAttended(now time.Time) bool { return now.Before(f.attendedUntil) }

// IsWatched reports whether somebody waits, and the user acted not too long ago.
func (f *Facts) IsWatched(now time.Time, l Limits) bool {
	return now.Before(f.watchedUntil) && now.Sub(f.userSeen) < l.WatchedFor
}

// AwaitsWatchedTry reports whether a sign that somebody waits can make the next try sooner.
func (f *Facts) AwaitsWatchedTry() bool { return !f.watchedTry.IsZero() }

// NextLogin is when the next automatic login may begin at the earliest. A server may count an
// unfinished login as a failed one, so there are three at most in the time that a ban is remembered.
func (f *Facts) NextLogin(l Limits) (at time.Time) {
	if !f.LastLogin.IsZero() {
		at = f.LastLogin.Add(l.LoginSpacing)
	}
	if first := f.unfinished[len(f.unfinished)-1]; !first.IsZero() {
		at = latest(at, first.Add(l.BanWait))
	}
	if !f.lastTry.IsZero() {
		at = latest(at, f.lastTry.Add(l.SitePause))
	}
	return at
}

// Attend takes in that the user waits for a try: nothing delays it.
func (f *Facts) Attend(now time.Time) {
	f.attendedUntil = now.Add(attendedFor)
	f.Stop = nil
	f.ForgetFailures()
	f.lostAt = time.Time{}
	f.Watch(now, true)
}

// Watch takes in that somebody waits for the host; with user set, it was an act of the
// user.
func (f *Facts) Watch(now time.Time, user bool) {
	f.watchedUntil = now.Add(watchedLasts)
	if user {
		f.userSeen = now
	}
}

// Drop takes in that nobody wants the host any more.
func (f *Facts) Drop() {
	f.Stop, f.attendedUntil = nil, time.Time{}
	f.ForgetFailures()
}

// EndBan ends a stop whose time is over.
func (f *Facts) EndBan(now time.Time) {
	if f.Stop != nil && !f.Stop.Until.IsZero() && !now.Before(f.Stop.Until) {
		f.Stop = nil
	}
}

// Begin takes in that a try begins.
func (f *Facts) Begin(now time.Time) { f.lastTry = now }

// Succeeded takes in that a try succeeded.
func (f *Facts) Succeeded() {
	f.Stop, f.Refusals, f.Ban, f.attendedUntil = nil, 0, time.Time{}, time.Time{}
}

// Connected takes in that the host has a connection, by a try or because one responds
// again.
func (f *Facts) Connected() {
	f.NextTry, f.lostAt, f.watchedTry, f.watchedUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if f.Stop != nil && f.Stop.State == api.HostNeedsLogin {
		f.Stop = nil
	}
}

// Lost takes in that a connection was lost after a time. With ended set it has ended;
// otherwise it does not respond, and a login would be one beside it. A host that never keeps a
// connection is stopped until the user acts, one that did for an hour unless somebody waits; the
// Stop has no Why.
func (f *Facts) Lost(lasted time.Duration, ended bool, l Limits, now time.Time, jitter float64) {
	f.lostAt = now
	if f.drops++; !ended || lasted >= l.StableAfter/10 {
		f.drops, f.kept = 0, true
	}
	if f.drops >= maxDrops && !f.kept {
		f.Stop = &Stop{State: api.HostBlocked}
	} else if f.drops >= maxDrops && !f.IsWatched(now, l) {
		f.Stop = &Stop{State: api.HostBlocked, Until: now.Add(l.BanWait)}
	}
	if lasted >= l.StableAfter {
		f.ForgetFailures()
	} else {
		f.countFailure(now, ended, l, jitter)
	}
}

// countFailure counts a failure, and sets when to try again. With login set, the host has
// seen a login.
func (f *Facts) countFailure(now time.Time, login bool, l Limits, jitter float64) {
	f.Failures++
	f.NextTry = now.Add(Backoff(f.Failures, l.RetryMin, l.RetryMax, jitter))
	if login {
		f.logins = loginFailures{f.logins.count + 1, f.NextTry}
	}
}

// ForgetFailures has the backoff start over.
func (f *Facts) ForgetFailures() {
	f.logins, f.penalties, f.drops = loginFailures{}, 0, 0
	f.ForgetUnreached()
}

// ForgetUnreached forgets the failures to reach the host.
func (f *Facts) ForgetUnreached() { f.Failures, f.NextTry = f.logins.count, f.logins.nextTry }

// Delay has the next try wait until a time.
func (f *Facts) Delay(until time.Time) { f.NextTry = latest(f.NextTry, until) }

// ForgetLogins forgets the logins to an account that the host no longer leads to.
func (f *Facts) ForgetLogins() {
	f.Refusals, f.Ban, f.LastLogin = 0, time.Time{}, time.Time{}
	f.refused, f.unfinished = time.Time{}, [3]time.Time{}
}

// Recall continues where the last process ended. A clock that was set back since does not
// lengthen the waits. It reports whether that stops the host; the Stop has no Why.
func (f *Facts) Recall(known api.Logins, l Limits, now time.Time) (stopped bool) {
	f.LastLogin = earliest(known.Last, now)
	f.Refusals = known.Refusals
	f.refused = earliest(known.Refused, now)
	for i, ended := range known.Unfinished {
		f.unfinished[i] = earliest(ended, now)
	}
	f.Ban = earliest(known.BannedUntil, now.Add(l.BanWait))
	switch {
	case f.IsAttended(now): // the user has acted already
		return false
	case now.Before(f.Ban):
		f.Stop = &Stop{State: api.HostBlocked, Until: f.Ban}
		return true
	case known.BannedUntil.IsZero() && known.Why != "" || f.Refusals >= l.Refusals:
		f.Stop = &Stop{State: api.HostBlocked}
		return true
	}
	return false
}

// Logins is what must outlive the process.
func (f *Facts) Logins() api.Logins {
	l := api.Logins{Last: f.LastLogin, Refusals: f.Refusals, BannedUntil: f.Ban, Refused: f.refused, Unfinished: f.unfinished}
	if f.Stop == nil || f.Stop.State != api.HostBlocked || f.Refusals == 0 && f.Ban.IsZero() {
		return l
	}
	if f.Stop.Until.IsZero() { // refused since: the end of a ban is no reason to try again
		l.BannedUntil = time.Time{}
	}
	why := f.Stop.Why
	if cause, ok := errors.AsType[*api.Error](why.Err); ok {
		why = cause // of the suspected ban
	}
	l.Why = api.Redact(why.Message)
	l.Why = strings.ToValidUTF8(l.Why[:min(len(l.Why), maxWhy)], "")
	return l
}

// Backoff is the wait before the next try after so many failures. It doubles from least
// to most, minus up to a fifth by jitter, which is from [0, 1), so that many laptops do not
// return at the same moment.
func Backoff(failures int, least, most time.Duration, jitter float64) time.Duration {
	wait := most
	if shift := failures - 1; shift < 30 {
		wait = min(most, least<<max(shift, 0))
	}
	return shortened(wait, jitter)
}

// watchedPause is the time between the beginnings of two tries while somebody waits: a
// tenth of the time since the loss, within bounds.
func watchedPause(lost time.Duration, l Limits, jitter float64) time.Duration {
	return shortened(min(max(lost/10, l.WatchedMin), l.WatchedMax), jitter)
}

func shortened(wait time.Duration, jitter float64) time.Duration {
	return wait - time.Duration(jitter*float64(wait/5+1))
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// earliest is the earlier of two times; zero stays zero.
func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
