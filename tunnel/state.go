package tunnel

import (
	"cmp"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/retry"
)

// facts determine a host's state.
type facts struct {
	wanted    bool           // by a person, the agent, or a host that jumps through it
	live      *conn          // the connection; nil: none
	trying    string         // what a try under way is doing; "" between tries
	asking    api.PromptKind // the kind of question that the try waits for; "": none
	links     []string       // the web addresses in the question
	failure   *api.Error     // why the last try failed
	loggingIn bool           // the try under way has begun to log in
	client    string         // the client that the person last used
	tries     retry.Facts    // what they leave for the next one
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
	v.Outdated = ""
	if h.outdated && h.facts.live != nil {
		v.Outdated = outdatedText(h.name)
	}
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
	if h.behind == "" {
		h.pool.enqueue(h.statusLocked())
	}
}

// sameHost compares what follows from the facts. The settings change only together with
// that.
func sameHost(a, b *api.Host) bool {
	return a.State == b.State && a.Cause == b.Cause && a.Hint == b.Hint && a.Code == b.Code && a.Asking == b.Asking && a.Auth == b.Auth &&
		a.LoginNode == b.LoginNode && a.RTTMs == b.RTTMs && a.Hostname == b.Hostname && a.Outdated == b.Outdated
}

// connections are those of a host besides the live one. The host's lock guards them.
type connections struct {
	ended *conn          // the one that is about to be closed, even if the host is wanted again at once
	lost  *conn          // the one that was last lost
	aside map[*conn]bool // see standing; false: about to be closed
}

// dropAside has those that are set aside closed.
func (c *connections) dropAside() {
	for old := range c.aside {
		c.aside[old] = false
	}
}

// connectedLocked makes a connection the host's.
func (h *Host) connectedLocked(c *conn) {
	f := &h.facts
	f.live, h.conns.lost = c, nil
	f.failure = nil
	f.tries.Connected()
	h.enterLocked()
}

// lostLocked records that the host lost its connection: it has ended or, if a reason is
// given, does not respond.
func (h *Host) lostLocked(c *conn, silent error) {
	f, now := &h.facts, time.Now()
	f.live, h.conns.lost = nil, c
	byUs := h.conns.ended == c // who wants the host since then wants a new connection
	if f.wanted && !byUs {
		why := silent
		text := "%s does not respond: %v"
		if silent == nil {
			text, why = "the connection to %s was lost: %v", c.endReason()
		}
		f.failure = failure.Passing.Errorf(api.CodeUnreachable, why, "%s", fmt.Sprintf(text, h.label(), why))
		if c.clients.sentWithin(now, h.pool.o.Limits.InUse) {
			f.tries.Watch(now, true)
		}
		f.tries.Lost(now.Sub(c.since), silent == nil, h.retryLimitsLocked(), now, jitter())
	}
	h.enterLocked()
}
