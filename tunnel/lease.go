package tunnel

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// demand is who wants a host. The host's lock guards it.
type demand struct {
	asked  bool             // Up or Want was called, and Down was not called since
	users  map[*Host]string // the hosts that go through this one, or share the connection of that identity
	leases int
	idle   *time.Timer // runs since the last lease ended
}

// onlyLeased reports whether only the host's own leases want it.
func (d *demand) onlyLeased() bool { return !d.asked && len(d.users) == 0 }

func (d *demand) userNames() (names []string) {
	for user := range d.users {
		names = append(names, user.name)
	}
	slices.Sort(names)
	return names
}

// keepSharers drops the users that share a connection of another identity, and reports
// whether there were any.
func (d *demand) keepSharers(identity string) (dropped bool) {
	before := len(d.users)
	maps.DeleteFunc(d.users, func(_ *Host, shared string) bool { return shared != "" && shared != identity })
	return len(d.users) < before
}

// Lease keeps the host connected for one user, such as a shell on a compute node, until
// release is called. With attended, the login may ask a person at that client, as with
// UpFor; otherwise the host is only wanted, as with Want. The connection ends some time
// after the last lease (Limits.NodeIdle). A host that only leases want is never logged
// in to again automatically, neither after a lost connection nor after a refused login.
func (h *Host) Lease(attended bool, client string) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.demand.leases++
	if h.demand.idle != nil {
		h.demand.idle.Stop()
	}
	switch {
	case h.facts.live != nil && h.facts.live != h.conns.ended:
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
	h.demand.leases--
	if h.demand.leases > 0 {
		return
	}
	if h.facts.live == nil {
		h.leasesOverLocked()
		return
	}
	h.demand.idle = time.AfterFunc(h.pool.o.Limits.NodeIdle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.leasesOverLocked()
	})
}

// leasesOverLocked drops a host that only leases wanted. What stopped it remains: a
// program that asks repeatedly must not cause more logins.
func (h *Host) leasesOverLocked() {
	switch {
	case h.demand.leases > 0: // a new one came meanwhile
	case h.facts.tries.Stop != nil:
		h.wake() // so that it stops using its hops
	default:
		h.unwantLocked()
		if !h.facts.wanted {
			h.conns.ended = h.facts.live // a new lease gets a new connection
		}
	}
}

// onlyLeased reports whether only leases want the host: its own, or those of the hosts
// that use it.
func (h *Host) onlyLeased() bool {
	h.mu.Lock()
	asked, users := h.demand.asked, slices.Collect(maps.Keys(h.demand.users))
	h.mu.Unlock()
	return !asked && !slices.ContainsFunc(users, func(u *Host) bool { return !u.onlyLeased() })
}
