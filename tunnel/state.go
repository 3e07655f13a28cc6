package tunnel

import (
	"time"

	"tunctl/internal/api"
)

// facts are what a host's state follows from.
type facts struct {
	wanted    bool           // by a person, the agent, or a host that jumps through it
	live      *conn          // the connection, while there is one
	trying    string         // what a try under way is doing; "" between tries
	asking    api.PromptKind // the question that the try waits for an answer to; "": none
	stop      *stop          // why there are no more tries by ourselves
	failure   *api.Error     // why the last try failed
	failures  int            // tries and short-lived connections in a row
	nextTry   time.Time      // not before then, unless a person acts
	attended  time.Time      // until then a person may be asked
	client    string         // through which the person last acted
	refusals  int            // refused logins since the last good one
	ban       time.Time      // until then a ban is suspected
	lastLogin time.Time      // when a login was last begun
}

// stop ends all tries, for good or until a time, unless a person acts.
type stop struct {
	state api.HostState // needs-login or blocked
	why   *api.Error
	until time.Time // zero: until a person acts
}

// derive is the one place where a state follows from facts.
func derive(f *facts) (state api.HostState, cause, hint string, code api.Code) {
	switch {
	case f.live != nil:
		return api.HostUp, "", "", ""
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
	}
	return api.HostConnecting, "", "", ""
}

// enterLocked is the one place where a state is entered: it stamps and publishes
// what the facts now say.
func (h *Host) enterLocked() {
	v := h.view
	v.State, v.Cause, v.Hint, v.Code = derive(&h.facts)
	v.Asking = h.facts.asking
	v.Cause = api.Redact(v.Cause)
	if c := h.facts.live; c != nil {
		rtt, node := c.measured()
		v.Auth, v.LoginNode, v.Via, v.Algorithms = c.auth, node, c.via, c.algorithms
		v.RTTMs = float64(rtt) / float64(time.Millisecond)
		v.Transport, v.TransportWhy = c.transport, c.transportWhy
	} else {
		v.Transport, v.TransportWhy = "", ""
		v.Auth, v.LoginNode, v.RTTMs, v.Algorithms = "", "", 0, nil
	}
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
		h.log.Info("host state", "state", v.State, "cause", v.Cause)
	}
	h.view = v
	h.publishLocked()
}

// publishLocked tells everyone of the view as it is now.
func (h *Host) publishLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
	if !h.quiet {
		h.pool.enqueue(h.view)
	}
}

// sameHost compares what the facts decide; the settings part changes with it.
func sameHost(a, b *api.Host) bool {
	return a.State == b.State && a.Cause == b.Cause && a.Hint == b.Hint && a.Code == b.Code && a.Asking == b.Asking && a.Auth == b.Auth &&
		a.LoginNode == b.LoginNode && a.RTTMs == b.RTTMs && a.Hostname == b.Hostname && a.Outdated == b.Outdated
}
