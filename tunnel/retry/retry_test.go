package retry

import (
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

var (
	now    = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	limits = Limits{
		RetryMin: 5 * time.Second, RetryMax: 15 * time.Minute, LoginSpacing: time.Minute, StableAfter: 5 * time.Minute,
		Refusals: 2, BanWait: time.Hour, WatchedMin: 10 * time.Second, WatchedMax: time.Minute, WatchedFor: 30 * time.Minute,
	}
	automatic = Host{Wanted: true, Silent: true} // nobody is there, and nobody is needed
)

// ago is a time before now; in is one after it.
func ago(d time.Duration) time.Time { return now.Add(-d) }
func in(d time.Duration) time.Time  { return now.Add(d) }

func TestWhatAHostDoesNext(t *testing.T) {
	blocked := &Stop{State: api.HostBlocked, Why: &api.Error{}}
	banned := &Stop{State: api.HostBlocked, Why: &api.Error{}, Until: in(time.Hour)}
	over := &Stop{State: api.HostBlocked, Why: &api.Error{}, Until: now}
	here := in(time.Minute)
	unfinished := [3]time.Time{ago(10 * time.Minute), ago(30 * time.Minute), ago(50 * time.Minute)}
	slowSite := limits
	slowSite.SitePause = 10 * time.Minute
	for name, tt := range map[string]struct {
		facts  Facts
		host   Host
		limits Limits
		do     Do
		until  time.Time
	}{
		"nobody wants it":                       {Facts{}, Host{}, limits, Idle, time.Time{}},
		"nobody wants it any more":              {Facts{}, Host{Connected: true}, limits, Idle, time.Time{}},
		"it is connected":                       {Facts{}, Host{Wanted: true, Connected: true}, limits, Hold, time.Time{}},
		"the last login was silent":             {Facts{}, automatic, limits, Try, time.Time{}},
		"it was not":                            {Facts{}, Host{Wanted: true}, limits, NeedLogin, time.Time{}},
		"it was not, and the user is here":      {Facts{attendedUntil: here}, Host{Wanted: true}, limits, Try, time.Time{}},
		"the user has left":                     {Facts{attendedUntil: now}, Host{Wanted: true}, limits, NeedLogin, time.Time{}},
		"refused":                               {Facts{Stop: blocked}, automatic, limits, Wait, time.Time{}},
		"banned":                                {Facts{Stop: banned}, automatic, limits, Wait, in(time.Hour)},
		"the ban is over":                       {Facts{Stop: over}, automatic, limits, Try, time.Time{}},
		"the backoff runs":                      {Facts{NextTry: in(time.Minute)}, automatic, limits, Wait, in(time.Minute)},
		"it is over":                            {Facts{NextTry: now}, automatic, limits, Try, time.Time{}},
		"somebody waits, no dial was answered":  {Facts{NextTry: in(time.Minute), watchedTry: in(time.Second), watchedUntil: here, userSeen: ago(time.Minute)}, automatic, limits, Wait, in(time.Second)},
		"somebody waits, a dial was answered":   {Facts{NextTry: in(time.Minute), watchedUntil: here, userSeen: ago(time.Minute)}, automatic, limits, Wait, in(time.Minute)},
		"nobody waits any more":                 {Facts{NextTry: in(time.Minute), watchedTry: in(time.Second), watchedUntil: ago(time.Second), userSeen: ago(time.Minute)}, automatic, limits, Wait, in(time.Minute)},
		"a program waits for hours":             {Facts{NextTry: in(time.Minute), watchedTry: in(time.Second), watchedUntil: here, userSeen: ago(time.Hour)}, automatic, limits, Wait, in(time.Minute)},
		"a login was just before":               {Facts{LastLogin: ago(time.Second)}, automatic, limits, Wait, in(59 * time.Second)},
		"a login was just before, and the user": {Facts{LastLogin: ago(time.Second), attendedUntil: here}, automatic, limits, Try, time.Time{}},
		"the site wants long pauses":            {Facts{lastTry: ago(time.Minute)}, automatic, slowSite, Wait, in(9 * time.Minute)},
		"two unfinished logins in an hour":      {Facts{unfinished: [3]time.Time{ago(time.Minute), ago(time.Minute)}}, automatic, limits, Try, time.Time{}},
		"three unfinished logins in an hour":    {Facts{unfinished: unfinished}, automatic, limits, Wait, in(10 * time.Minute)},
		"three unfinished logins, and the user": {Facts{unfinished: unfinished, attendedUntil: here}, automatic, limits, Try, time.Time{}},
		"three unfinished logins, long ago":     {Facts{unfinished: [3]time.Time{ago(time.Hour), ago(time.Hour), ago(time.Hour)}}, automatic, limits, Try, time.Time{}},
		"the latest pause counts":               {Facts{NextTry: in(time.Second), LastLogin: ago(time.Second)}, automatic, limits, Wait, in(59 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Next(tt.facts, tt.host, tt.limits, now); got.Do != tt.do || !got.Until.Equal(tt.until) {
				t.Errorf("%+v, want %d until %v", got, tt.do, tt.until)
			}
		})
	}
}

func TestWhatFollowsAFailedTry(t *testing.T) {
	backoff := in(5 * time.Second)
	for name, tt := range map[string]struct {
		before Facts
		try    FailedTry
		state  api.HostState // of the stop; "": none
		until  time.Time     // of the stop, or of the pause
	}{
		"it may pass":                        {Facts{}, FailedTry{Class: failure.Passing}, "", backoff},
		"an unknown failure":                 {Facts{}, FailedTry{Class: failure.Unknown}, "", backoff},
		"a closed port":                      {Facts{}, FailedTry{Class: failure.ClosedPort}, "", backoff},
		"a closed port after a refusal":      {Facts{Refusals: 1}, FailedTry{Class: failure.ClosedPort}, api.HostBlocked, in(time.Hour)},
		"a login that broke":                 {Facts{Refusals: 1}, FailedTry{Class: failure.Passing, Login: true}, "", backoff},
		"a ban after a refusal":              {Facts{refused: ago(59 * time.Minute)}, FailedTry{Class: failure.Banned}, api.HostBlocked, in(time.Hour)},
		"a ban an hour after a refusal":      {Facts{refused: ago(time.Hour), Refusals: 1}, FailedTry{Class: failure.Banned}, "", in(30 * time.Second)},
		"a penalty for others":               {Facts{}, FailedTry{Class: failure.Banned}, "", in(30 * time.Second)},
		"the second":                         {Facts{penalties: 1}, FailedTry{Class: failure.Banned}, "", in(2 * time.Minute)},
		"the third":                          {Facts{penalties: 2}, FailedTry{Class: failure.Banned}, "", in(10 * time.Minute)},
		"the hundredth":                      {Facts{penalties: 99}, FailedTry{Class: failure.Banned}, "", in(10 * time.Minute)},
		"the first refusal":                  {Facts{}, FailedTry{Class: failure.Refused, Login: true}, "", backoff},
		"the second refusal":                 {Facts{Refusals: 1}, FailedTry{Class: failure.Refused, Login: true}, api.HostBlocked, time.Time{}},
		"a refusal in front of the user":     {Facts{}, FailedTry{Class: failure.Refused, Login: true, Attended: true}, api.HostBlocked, time.Time{}},
		"only the user can log in":           {Facts{}, FailedTry{Class: failure.NeedsUser}, api.HostNeedsLogin, time.Time{}},
		"the user came during the try":       {Facts{attendedUntil: in(time.Minute)}, FailedTry{Class: failure.NeedsUser}, "", now},
		"the user was asked":                 {Facts{attendedUntil: in(time.Minute)}, FailedTry{Class: failure.NeedsUser, Attended: true}, api.HostNeedsLogin, time.Time{}},
		"it fails until something's changed": {Facts{}, FailedTry{Class: failure.Permanent}, api.HostBlocked, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tt.before
			tt.try.Why, tt.try.Began = &api.Error{Message: "no"}, ago(time.Second)
			f.Failed(tt.try, limits, now, 0)
			switch {
			case tt.state == "" && (f.Stop != nil || !f.NextTry.Equal(tt.until)):
				t.Errorf("stop %+v, next try %v", f.Stop, f.NextTry)
			case tt.state != "" && (f.Stop == nil || f.Stop.State != tt.state || !f.Stop.Until.Equal(tt.until) || f.Stop.Why != tt.try.Why):
				t.Errorf("stop %+v", f.Stop)
			case tt.state != "" && f.IsAttended(now):
				t.Error("the user may still be asked")
			}
			refused, unfinished := tt.try.Class == failure.Refused, tt.try.Class == failure.Passing && tt.try.Login
			if refused && f.Refusals != tt.before.Refusals+1 || refused != f.refused.Equal(now) || unfinished != f.unfinished[0].Equal(now) {
				t.Errorf("%d refusals, refused %v, unfinished %v", f.Refusals, f.refused, f.unfinished)
			}
			var next Facts
			if next.Recall(f.Logins(), limits, now); next.refused != f.refused || next.unfinished != f.unfinished {
				t.Errorf("the next process knows %+v", next)
			}
		})
	}
}

func TestANetworkChangeExcusesFailedDialsAndNoLogins(t *testing.T) {
	var f Facts
	f.Failed(FailedTry{Class: failure.Refused, Why: &api.Error{}, Login: true}, limits, now, 0)
	login := f.NextTry
	for range 3 {
		f.Failed(FailedTry{Class: failure.Passing, Why: &api.Error{}}, limits, now, 0)
	}
	if f.Failures != 4 || !f.NextTry.After(login) {
		t.Errorf("%d failures, next try %v", f.Failures, f.NextTry)
	}
	f.ForgetUnreached()
	if f.Failures != 1 || !f.NextTry.Equal(login) {
		t.Errorf("after the change: %d failures, next try %v", f.Failures, f.NextTry)
	}
}

func TestLost(t *testing.T) {
	waits := Facts{kept: true, watchedUntil: in(time.Minute), userSeen: now}
	for name, tt := range map[string]struct {
		facts  Facts
		lasted time.Duration
		ended  bool
		want   string
	}{
		"a host that keeps none":                     {Facts{}, time.Second, true, "stops"},
		"a host that kept one":                       {Facts{kept: true}, time.Second, true, "stops for an hour"},
		"a host that kept one, and somebody waits":   {waits, time.Second, true, "goes on"},
		"one that does not respond":                  {Facts{}, time.Second, false, "goes on"},
		"one that is kept for some time":             {Facts{}, 30 * time.Second, true, "goes on"},
		"a host that keeps none, and somebody waits": {Facts{watchedUntil: in(time.Minute), userSeen: now}, time.Second, true, "stops"},
	} {
		t.Run(name, func(t *testing.T) {
			f, got := tt.facts, "goes on"
			for range maxDrops - 1 {
				f.Lost(tt.lasted, tt.ended, limits, now, 0)
			}
			if f.Stop != nil {
				t.Error("it stops before")
			}
			f.ForgetUnreached() // excuses no login
			f.Lost(tt.lasted, tt.ended, limits, now, 0)
			if f.Stop != nil && f.Stop.Until.IsZero() {
				got = "stops"
			} else if f.Stop != nil && f.Stop.Until.Equal(in(limits.BanWait)) {
				got = "stops for an hour"
			}
			if got != tt.want {
				t.Errorf("it %s, want: it %s", got, tt.want)
			}
			if f.Attend(now); f.Stop != nil || f.drops > 0 {
				t.Errorf("after an act of the user: %+v", f)
			}
		})
	}
}

func TestTheNextProcessKeepsTheLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		known   api.Logins
		stopped bool
		until   time.Time
	}{
		"nothing is known":       {api.Logins{}, false, time.Time{}},
		"one refusal":            {api.Logins{Refusals: 1}, false, time.Time{}},
		"two refusals":           {api.Logins{Refusals: 2}, true, time.Time{}},
		"a refusal that stopped": {api.Logins{Refusals: 1, Why: "no"}, true, time.Time{}},
		"a ban":                  {api.Logins{Refusals: 1, BannedUntil: in(time.Minute)}, true, in(time.Minute)},
		"a ban that is over":     {api.Logins{Refusals: 1, BannedUntil: ago(time.Minute), Why: "no"}, false, time.Time{}},
		"a clock was set back":   {api.Logins{BannedUntil: in(48 * time.Hour), Last: in(time.Hour)}, true, in(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			var f Facts
			if stopped := f.Recall(tt.known, limits, now); stopped != tt.stopped {
				t.Fatalf("stopped: %v", stopped)
			}
			if tt.stopped {
				f.Stop.Why = api.Errorf(api.CodeAuth, "no")
				if again := f.Logins().BannedUntil; !f.Stop.Until.Equal(tt.until) || !again.Equal(tt.until) {
					t.Errorf("until %v, and in the process after that %v, want %v", f.Stop.Until, again, tt.until)
				}
			}
			if f.LastLogin.After(now) {
				t.Errorf("the last login is at %v", f.LastLogin)
			}
		})
	}
}

func TestTheBackoffGrowsAndHasJitter(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 9: 15 * time.Minute, 100: 15 * time.Minute} {
		longest, shortest := Backoff(failures, limits.RetryMin, limits.RetryMax, 0), Backoff(failures, limits.RetryMin, limits.RetryMax, 1)
		if longest != want || shortest > want*4/5 || shortest < want*4/5-1 {
			t.Errorf("after %d failures: %v to %v, want %v", failures, shortest, longest, want)
		}
	}
}
