package tunnel

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// errOtherKeys is the error of a host that does not accept the host key of a connection
// which it could share.
var errOtherKeys = errors.New("the connection's host key is not accepted for this host")

// errIdentityChanged is the error of a host that waits to share a connection when its
// owner's settings changed.
var errIdentityChanged = errors.New("the settings now lead to another host")

// sharing is which hosts use the connections of others: to jump through them, or because two
// names lead to one account, which has one login.
type sharing struct {
	mu     sync.Mutex                 // may be taken while a host's is held
	owners map[string]*Host           // by identity: who has the connection, or is making it
	users  map[*Host]map[*Host]string // of each host: "", or the identity whose connection they share
}

// owner is the host that has the connection of that identity, or is making it. The caller becomes it
// if there is none, or only one whose settings have changed since.
func (s *sharing) owner(h *Host, identity string, changed *Host) *Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner := s.owners[identity]; owner == nil || owner == changed {
		s.owners[identity] = h
	}
	return s.owners[identity]
}

// disown ends a host's ownership of all connections except one; "" is none.
func (s *sharing) disown(h *Host, except string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.owners, func(identity string, owner *Host) bool { return owner == h && identity != except })
}

// add makes a host a user of another, unless that one goes through it: two hosts that jump through
// each other must not both find out that the other does not yet.
func (s *sharing) add(user, of *Host, identity string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user == of || s.goesThroughLocked(of, user) {
		return false
	}
	if s.users[of] == nil {
		s.users[of] = map[*Host]string{}
	}
	s.users[of][user] = identity
	return true
}

// goesThroughLocked reports whether a host jumps through another, directly or not.
func (s *sharing) goesThroughLocked(h, through *Host) bool {
	for user := range s.users[through] {
		if user == h || s.goesThroughLocked(h, user) {
			return true
		}
	}
	return false
}

// drop ends the use of a host by those users whom gone reports, by the identity that they share, and
// reports whether there were any.
func (s *sharing) drop(of *Host, gone func(user *Host, identity string) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.users[of])
	maps.DeleteFunc(s.users[of], gone)
	return len(s.users[of]) < before
}

// usersOf are the hosts that use another, by name.
func (s *sharing) usersOf(h *Host) []*Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.users[h]), func(a, b *Host) int { return strings.Compare(a.name, b.name) })
}

// addUser marks the host as wanted by another that jumps through it, or shares the
// connection of that identity. It reports false if that one is part of the way here.
func (h *Host) addUser(user *Host, identity string, attended bool, client string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pool.sharing.add(user, h, identity) {
		return false
	}
	h.facts.wanted = true
	if attended && h.facts.live == nil {
		h.attendLocked(client)
		return true
	}
	h.enterLocked()
	h.wake()
	return true
}

// removeUser ends the use of this host by another.
func (h *Host) removeUser(user *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pool.sharing.drop(h, func(u *Host, _ string) bool { return u == user }) {
		h.unwantLocked()
	}
}

// updateIdentity records where the host's settings lead now. Hosts that share the
// connection want the account, not this name: if the name leads elsewhere, they look for
// another owner. It reports whether the host is still wanted.
func (h *Host) updateIdentity(identity string) bool {
	h.pool.sharing.disown(h, identity) // before its users wake
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity = identity
	if h.pool.sharing.drop(h, func(_ *Host, shared string) bool { return shared != "" && shared != identity }) {
		h.unwantLocked()
		h.publishLocked()
	}
	return h.facts.wanted
}

// sharedOrOwn is the connection of another host that owns this identity; nil if this
// host owns it, or accepts other host keys than the owner.
func (t *attempt) sharedOrOwn(ctx context.Context) (*conn, error) {
	for changed := (*Host)(nil); ; {
		owner := t.pool.sharing.owner(t.host, t.identity, changed)
		if owner == t.host {
			return nil, nil
		}
		c, err := t.share(ctx, owner)
		switch {
		case errors.Is(err, errOtherKeys), t.acceptsOtherKeys(owner, err): // its own login asks, or says what is wrong
			owner.removeUser(t.host)
			return nil, nil
		case !errors.Is(err, errIdentityChanged):
			return c, err
		}
		owner.removeUser(t.host)
		changed = owner
	}
}

// share uses the connection of another host that leads to the same account.
func (t *attempt) share(ctx context.Context, owner *Host) (*conn, error) {
	t.step("sharing the connection of " + owner.label())
	if err := t.useHost(ctx, owner, t.identity); err != nil {
		return nil, err
	}
	c, err := owner.current()
	if err != nil {
		return nil, err
	}
	if c.identity != t.identity {
		return nil, errIdentityChanged
	}
	if !t.acceptsKeyOf(ctx, c) {
		return nil, errOtherKeys
	}
	c.remember(t.pool.o.Memory, t.host.name)
	return c, nil
}

// acceptsOtherKeys reports whether the owner's login failed for a reason that this host may not
// have: it did not accept the host key.
func (t *attempt) acceptsOtherKeys(owner *Host, err error) bool {
	if !api.HasCode(err, api.CodeHostKey) && !api.HasCode(err, api.CodeNeedsPerson) {
		return false
	}
	owner.mu.Lock()
	defer owner.mu.Unlock()
	return !t.settings.SameHostKeys(&owner.used)
}

// useHost makes this host a user of another, to jump through it or, with an identity, to
// share its connection. The other host is wanted as long as this one, and must be
// connected now. Its first failed try fails this one too, which has its own backoff.
func (t *attempt) useHost(ctx context.Context, other *Host, identity string) error {
	if !other.addUser(t.host, identity, t.ask.attended, t.ask.client) {
		return failure.Permanent.Errorf(api.CodeConfig, nil, "%s jumps through itself", t.host.label()).
			WithHint("check its ProxyJump in the ssh settings")
	}
	return other.await(ctx, t.host)
}

// stopSharing is doubt for a host that shares another's connection.
func (h *Host) stopSharing(c *conn, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts.live == c {
		h.lostLocked(c, why)
		h.wake()
	}
}

// shareAgain is respondsAgain for a host that shared another's connection.
func (h *Host) shareAgain(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.facts.live == nil && h.facts.wanted && h.conns.lost == c {
		h.connectedLocked(c)
		h.wake()
	}
}
