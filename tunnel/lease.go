package tunnel

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Lease keeps the host connected for one user, such as a shell on a compute node, until
// release is called. With attended, the login may ask a person at that client, as with
// UpFor; otherwise the host is only wanted, as with Want. The connection ends some time
// after the last lease (Limits.NodeIdle). A host that only leases want is never logged
// in to again automatically, neither after a lost connection nor after a refused login.
func (h *Host) Lease(attended bool, client string) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases++
	if h.idle != nil {
		h.idle.Stop()
	}
	switch {
	case h.facts.live != nil && h.facts.live != h.ended:
	case attended:
		h.attendLocked(client)
	default:
		h.facts.wanted = true
		h.enterLocked()
		h.wake()
	}
	return sync.OnceFunc(h.release)
}

// release ends a lease. Without a connection the host is dropped at once, otherwise
// after some time without another lease.
func (h *Host) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases--
	if h.leases > 0 {
		return
	}
	if h.facts.live == nil {
		h.leasesOverLocked()
		return
	}
	h.idle = time.AfterFunc(h.pool.o.Limits.NodeIdle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.leasesOverLocked()
	})
}

// leasesOverLocked drops a host that only leases wanted. What stopped it remains: a
// program that asks repeatedly must not cause more logins.
func (h *Host) leasesOverLocked() {
	switch {
	case h.leases > 0: // a new one came meanwhile
	case h.facts.tries.Stop != nil:
		h.wake() // so that it stops using its hops
	default:
		h.unwantLocked()
		if !h.facts.wanted {
			h.ended = h.facts.live // a new lease gets a new connection
		}
	}
}

// onlyLeased reports whether only leases want the host: its own, or those of the hosts
// that use it.
func (h *Host) onlyLeased() bool {
	h.mu.Lock()
	asked, users := h.asked, slices.Collect(maps.Keys(h.users))
	h.mu.Unlock()
	return !asked && !slices.ContainsFunc(users, func(u *Host) bool { return !u.onlyLeased() })
}

// onlyLeasedLocked reports whether only its own leases want the host.
func (h *Host) onlyLeasedLocked() bool { return !h.asked && len(h.users) == 0 }
