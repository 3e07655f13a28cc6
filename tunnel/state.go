package tunnel

import (
	"cmp"
	"fmt"
	"time"

	"tunctl/internal/api"
)

// facts determine a host's state.
type facts struct {
	wanted    bool           // by a person, the agent, or a host that jumps through it
	live      *conn          // the connection; nil: none
	trying    string         // what a try under way is doing; "" between tries
	asking    api.PromptKind // the kind of question that the try waits for; "": none
	links     []string       // the web addresses in the question
	stop      *stop          // why there are no more automatic tries
	failure   *api.Error     // why the last try failed
	failures  int            // tries and short-lived connections in a row
	nextTry   time.Time      // not before then, unless a person acts
	logins    loginFailures  // those that are not about the way to the host
	loggingIn bool           // the try under way has begun to log in
	attended  time.Time      // until then a person may be asked
	client    string         // the client that the person last used
	refusals  int            // refused logins since the last good one
	ban       time.Time      // until then a ban is suspected
	lastLogin time.Time      // when the last login began
	lastTry   time.Time      // when the last try began

	lostAt      time.Time // when the connection was lost, or the first try failed
	waitedUntil time.Time // until then somebody waits; see Waiting
	person      time.Time // the last sign of a person
	waitedTry   time.Time // replaces nextTry while somebody waits; zero: it does not
}

// loginFailures are the failures that a network change does not excuse: the host has seen
// logins.
type loginFailures struct {
	count   int
	nextTry time.Time
}

// failed counts a failure, and sets when to try again. With login set, the host has seen a
// login.
func (f *facts) failed(now time.Time, login bool, l *Limits) {
	f.failures++
	f.nextTry = now.Add(backoff(f.failures, l.RetryMin, l.RetryMax))
	if login {
		f.logins = loginFailures{f.logins.count + 1, f.nextTry}
	}
}

func (f *facts) forgetFailures() {
	f.logins = loginFailures{}
	f.forgetUnreached()
}

// forgetUnreached forgets the failures to reach the host.
func (f *facts) forgetUnreached() { f.failures, f.nextTry = f.logins.count, f.logins.nextTry }

// stop ends all automatic tries, for good or until a time.
type stop struct {
	state api.HostState // needs-login or blocked
	why   *api.Error
	until time.Time // zero: until a person acts
}

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
	case f.stop != nil:
		return f.stop.state, f.stop.why.Message, f.stop.why.Hint, f.stop.why.Code
	case f.failure != nil:
		cause = f.failure.Message
		if !f.nextTry.IsZero() {
			cause += "; next try at " + f.nextTry.Format(time.TimeOnly)
		}
		return api.HostWaiting, cause, f.failure.Hint, ""
	case !f.nextTry.IsZero(): // the last login was just before the agent was restarted
		return api.HostWaiting, "the last login was a moment ago; next try at " + f.nextTry.Format(time.TimeOnly), "", ""
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
func (h *Host) enterLocked() {
	v := h.view
	v.State, v.Cause, v.Hint, v.Code = derive(&h.facts, h.label())
	v.Asking, v.Links = h.facts.asking, h.facts.links
	v.Cause = api.Redact(v.Cause)
	c := cmp.Or(h.facts.live, &conn{via: v.Via})
	rtt, node := c.measured()
	v.Auth, v.LoginNode, v.Via, v.Algorithms = c.auth, node, c.via, c.algorithms
	v.RTTMs = float64(rtt) / float64(time.Millisecond)
	v.Transport, v.TransportWhy = c.transport, c.transportWhy
	v.CertificateEnds = c.certificateEnds
	v.NotRespondingSince, _ = c.notResponding()
	v.Outdated = h.outdatedLocked()
	if h.recheckDue && h.facts.trying == "" {
		h.recheckDue = false
		h.pool.recheckSoon()
	}
	if sameHost(&v, &h.view) {
		return
	}
	if v.State != h.view.State {
		v.Since = time.Now()
		h.log.Info("host state", "state", v.State, "cause", api.WithoutLogin(v.Cause))
	}
	h.view = v
	h.publishLocked()
}

// publishLocked publishes the current view.
func (h *Host) publishLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
	if !h.quiet {
		h.pool.enqueue(h.statusLocked())
	}
}

// sameHost compares what follows from the facts. The settings change only together with
// that.
func sameHost(a, b *api.Host) bool {
	return a.State == b.State && a.Cause == b.Cause && a.Hint == b.Hint && a.Code == b.Code && a.Asking == b.Asking && a.Auth == b.Auth &&
		a.LoginNode == b.LoginNode && a.RTTMs == b.RTTMs && a.Hostname == b.Hostname && a.Outdated == b.Outdated
}
