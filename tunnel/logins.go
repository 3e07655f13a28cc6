package tunnel

import (
	"cmp"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// recallLogins makes the limits on logins continue where the last process ended.
func (h *Host) recallLogins() {
	if h.behind != "" {
		return
	}
	known := h.pool.o.Memory.Logins(h.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts.tries
	switch stopped := f.Recall(known, h.limitsLocked().retry(&h.used), time.Now()); {
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
	h.pool.o.Memory.SetLogins(h.name, l)
}
