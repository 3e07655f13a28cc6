package tunnel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// maxWhy bounds the text that is remembered of a refusal, in bytes.
const maxWhy = 500

// recallLogins makes the limits on logins continue where the last process ended. A clock
// that was set back since does not lengthen the waits.
func (h *Host) recallLogins() {
	if h.behind != "" {
		return
	}
	known := h.pool.o.Memory.Logins(h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	f, l, now := &h.facts, &h.pool.o.Limits, time.Now()
	f.lastLogin = earlier(known.Last, now)
	f.refusals = known.Refusals
	f.ban = earlier(known.BannedUntil, now.Add(l.BanWait))
	if now.Before(f.attended) {
		return // a person has acted already
	}
	switch {
	case now.Before(f.ban):
		why := api.Errorf(api.CodeUnreachable, "%s", cmp.Or(known.Why, "seen before the agent was restarted"))
		f.stop = &stop{state: api.HostBlocked, why: h.suspectedBan(why, f.ban), until: f.ban}
	case known.BannedUntil.IsZero() && known.Why != "" || f.refusals >= l.Refusals:
		f.stop = &stop{state: api.HostBlocked, why: failure.Refused.Errorf(api.CodeAuth, nil, "%s",
			cmp.Or(known.Why, fmt.Sprintf("%s refused %d logins before the agent was restarted", h.label(), f.refusals))).
			WithHint("`tunctl login %s` tries again", h.name)}
	}
	h.enterLocked()
}

// earlier is the earlier of two times; zero stays zero.
func earlier(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// loginBegins saves that a login begins, before the server counts it: if this process
// ends during the login, the next one waits as long as this one would have.
func (h *Host) loginBegins(at time.Time) {
	h.saveLogins(func(l *api.Logins) {
		h.facts.loggingIn = true
		l.Last = at
	})
}

// saveLogins saves what the limits on logins count, with a change.
func (h *Host) saveLogins(changeLocked func(*api.Logins)) {
	if h.behind != "" {
		return
	}
	h.mu.Lock()
	l := h.loginsLocked()
	changeLocked(&l)
	h.mu.Unlock()
	h.pool.o.Memory.SetLogins(h.name, l)
}

func (h *Host) loginsLocked() api.Logins {
	f := &h.facts
	l := api.Logins{Last: f.lastLogin, Refusals: f.refusals, BannedUntil: f.ban}
	if f.stop == nil || f.stop.state != api.HostBlocked || f.refusals == 0 && f.ban.IsZero() {
		return l
	}
	if f.stop.until.IsZero() { // refused since: the end of a ban is no reason to try again
		l.BannedUntil = time.Time{}
	}
	why := f.stop.why
	if cause, ok := errors.AsType[*api.Error](why.Err); ok {
		why = cause // of the suspected ban
	}
	l.Why = api.Redact(why.Message)
	l.Why = strings.ToValidUTF8(l.Why[:min(len(l.Why), maxWhy)], "")
	return l
}
