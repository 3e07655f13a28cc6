package tunnel

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Lease has the host connected for one user of it, such as a shell on a compute node,
// and returns how to end that. A person who asked for it through a client is attended as
// with UpFor, else the host is only wanted as with Want. The connection ends some time (Limits.NodeIdle)
// after its last lease. A host that is wanted by nothing but leases is never logged in
// to again by itself: not after a lost connection, and not after a refused login.
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

// release ends a lease. What is not connected is given up at once, and what is after a
// while without another lease.
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

// leasesOverLocked ends the wish for a host that only leases wanted. What stopped it
// stays: a program that asks over and over must not get more logins by that.
func (h *Host) leasesOverLocked() {
	switch {
	case h.leases > 0: // another came just then
	case h.facts.stop != nil:
		h.wake() // no use of its hops any more
	default:
		h.unwantLocked()
		if !h.facts.wanted {
			h.ended = h.facts.live // a lease that comes now gets another
		}
	}
}

// onlyLeased reports whether nothing but leases wants the host: its own, or those of
// the hosts that use it.
func (h *Host) onlyLeased() bool {
	h.mu.Lock()
	asked, users := h.asked, slices.Collect(maps.Keys(h.users))
	h.mu.Unlock()
	return !asked && !slices.ContainsFunc(users, func(u *Host) bool { return !u.onlyLeased() })
}

// onlyLeasedLocked reports whether nothing but leases of its own wants the host.
func (h *Host) onlyLeasedLocked() bool { return !h.asked && len(h.users) == 0 }
