package tunnel

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/retry"
	"tunctl/tunnel/sshconfig"
)

// facts determine a host's state.
type facts struct {
	asked     bool           // Up or Want was called, and Down was not called since
	wanted    bool           // by the user, the agent, or a host that jumps through it
	live      *conn          // the connection; nil: none
	trying    string         // what a try under way is doing; "" between tries
	asking    api.PromptKind // the kind of question that the try waits for; "": none
	links     []string       // the web addresses in the question
	failure   *api.Error     // why the last try failed
	loggingIn bool           // the try under way has begun to log in
	client    string         // the client that the user last used
	tries     retry.Facts    // what they leave for the next one
}

// connections are those of a host besides the live one.
type connections struct {
	lost  *conn          // the one that was last lost
	aside map[*conn]bool // see standing
}

// hostState is what is known of a host, and the state that follows. The host's lock guards
// it, but for its first fields, which do not change.
type hostState struct {
	name    string
	log     *slog.Logger
	limits  *Limits        // of all hosts
	publish func(api.Host) // is given every change

	facts    facts
	conns    connections
	view     api.Host
	used     sshconfig.Settings // those of the last try, and so of the live connection
	identity string             // that they lead to; see Pool.identity
	outdated bool               // the live connection's settings differ from the config
	changed  chan struct{}      // closed at the next change of the view
}

// label is the host's name in messages.
func (s *hostState) label() string { return api.HostLabel(s.name) }

// retryLimitsLocked are the limits of all hosts, or stricter ones of the host's site.
func (s *hostState) retryLimitsLocked() retry.Limits { return s.limits.within(&s.used).Limits }

// derive is the only place that derives a state from facts.
func derive(f *facts, label string) (state api.HostState, cause, hint string, code api.Code) {
	switch {
	case f.live != nil:
		cause, hint = stalledText(f.live, label)
		return api.HostUp, cause, hint, ""
	case !f.wanted:
		return api.HostDown, "", "", ""
	case f.trying != "" && f.asking != "":
		return api.HostConnecting, api.AskedElsewhere, "", ""
	case f.trying != "":
		return api.HostConnecting, f.trying, "", ""
	case f.tries.Stop != nil:
		why := f.tries.Stop.Why
		return f.tries.Stop.State, why.Message, why.Hint, why.Code
	case f.failure != nil:
		cause = f.failure.Message
		if !f.tries.NextTry.IsZero() {
			cause += "; next try at " + f.tries.NextTry.Format(time.TimeOnly)
		}
		return api.HostWaiting, cause, f.failure.Hint, ""
	case !f.tries.NextTry.IsZero(): // the last login was just before the agent was restarted
		return api.HostWaiting, "the last login was a moment ago; next try at " + f.tries.NextTry.Format(time.TimeOnly), "", ""
	}
	return api.HostConnecting, "", "", ""
}

// stalledText says that a connection does not respond, and what follows; empty if it
// does.
func stalledText(c *conn, label string) (cause, hint string) {
	since, kept := c.notResponding()
	if since.IsZero() {
		return "", ""
	}
	if kept {
		hint = "the connection is kept, since a new one needs your login"
	}
	return fmt.Sprintf("%s is not responding since %s", label, since.Format(time.TimeOnly)), hint
}

// enterLocked is the only place that enters a state. It sets the time and publishes the
// change.
func (s *hostState) enterLocked() {
	v := s.view
	v.State, v.Cause, v.Hint, v.Code = derive(&s.facts, s.label())
	v.Asking, v.Links = s.facts.asking, s.facts.links
	v.Cause = api.Redact(v.Cause)
	c := cmp.Or(s.facts.live, &conn{via: v.Via})
	rtt, node := c.measured()
	v.Auth, v.LoginNode, v.Via, v.Algorithms = c.auth, node, c.via, c.algorithms
	v.RTTMs = float64(rtt) / float64(time.Millisecond)
	v.Transport, v.TransportWhy = c.transport, c.transportWhy
	v.CertificateEnds = c.certificateEnds
	v.NotRespondingSince, _ = c.notResponding()
	v.Outdated = ""
	if s.outdated && s.facts.live != nil {
		v.Outdated = fmt.Sprintf("the settings of %s changed after it was connected; `tunctl logout %s` and `tunctl login %s` use the new ones",
			s.label(), s.name, s.name)
	}
	if sameHost(&v, &s.view) {
		return
	}
	if v.State != s.view.State {
		v.Since = time.Now()
		s.log.Info("host state", "state", v.State, "cause", api.WithoutLogin(v.Cause))
	}
	s.view = v
	s.publishLocked()
}

// sameHost compares what follows from the facts. The settings change only together with
// that.
func sameHost(a, b *api.Host) bool {
	return a.State == b.State && a.Cause == b.Cause && a.Hint == b.Hint && a.Code == b.Code && a.Asking == b.Asking && a.Auth == b.Auth &&
		a.LoginNode == b.LoginNode && a.RTTMs == b.RTTMs && a.Hostname == b.Hostname && a.Outdated == b.Outdated
}

// publishLocked publishes the current view.
func (s *hostState) publishLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.publish(s.statusLocked())
}

// statusLocked is the view with the channels in use, which change all the time.
func (s *hostState) statusLocked() api.Host {
	v := s.view
	if c := s.facts.live; c != nil {
		v.Channels, v.MaxChannels = c.slots.InUse()
	}
	return v
}

// warnLocked adds a warning to the view, and reports whether it is a new one.
func (s *hostState) warnLocked(text string) bool {
	known := slices.Contains(s.view.Warnings, text)
	if !known {
		s.view.Warnings = append(slices.Clip(s.view.Warnings), text)
	}
	return !known
}

// connectedLocked makes a connection the host's.
func (s *hostState) connectedLocked(c *conn) {
	f := &s.facts
	f.live, s.conns.lost = c, nil
	f.failure = nil
	f.tries.Connected()
	s.enterLocked()
}

// lostLocked records that the host lost its connection: it has ended or, if a reason is
// given, does not respond.
func (s *hostState) lostLocked(c *conn, silent error) {
	f, now := &s.facts, time.Now()
	f.live, s.conns.lost = nil, c
	if f.wanted {
		why := silent
		text := "%s does not respond: %v"
		if silent == nil {
			text, why = "the connection to %s was lost: %v", c.endReason()
		}
		f.failure = failure.Passing.Errorf(api.CodeUnreachable, why, "%s", fmt.Sprintf(text, s.label(), why))
		if c.clients.sentWithin(now, s.limits.InUse) {
			f.tries.Watch(now, true)
		}
		f.tries.Lost(now.Sub(c.since), silent == nil, s.retryLimitsLocked(), now, jitter())
		if stop := f.tries.Stop; stop != nil && stop.Why == nil {
			stop.Why = failure.Passing.Errorf(api.CodeUnreachable, why, "%s ends each connection soon after the login: %v", s.label(), why).
				WithHint("ask the site, or see what `ssh %s` prints; `tunctl login %s` tries again", s.name, s.name)
		}
	}
	s.enterLocked()
}

// jitter is a random part of a wait, which is no secret.
func jitter() float64 { return rand.Float64() } //nolint:gosec // see above

// failedLocked records a failed try.
func (s *hostState) failedLocked(try retry.FailedTry) {
	s.log.Warn("connecting failed", "code", try.Why.Code, "err", try.Why.Message)
	s.facts.failure = try.Why
	s.facts.tries.Failed(try, s.retryLimitsLocked(), time.Now(), jitter())
	if stop := s.facts.tries.Stop; stop != nil && !stop.Until.IsZero() {
		stop.Why = suspectedBan(s.name, try.Why, stop.Until)
	}
}

// suspectedBan is the error of a host that may have banned this address.
func suspectedBan(host string, why *api.Error, until time.Time) *api.Error {
	return api.Errorf(api.CodeUnreachable, "%s may have banned this address after refused logins (%s); no further tries until %s",
		api.HostLabel(host), why.Message, until.Format(time.TimeOnly)).Because(why).
		WithHint("a network change or the site's support can lift a ban; `tunctl login %s` tries now", host)
}
