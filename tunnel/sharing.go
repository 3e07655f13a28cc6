package tunnel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/sshconfig"
)

// errOtherKeys is the error of a host that does not accept the host key of a connection
// which it could share.
var errOtherKeys = errors.New("the connection's host key is not accepted for this host")

// errIdentityChanged is the error of a host that waits to share a connection when its
// owner's settings changed.
var errIdentityChanged = errors.New("the settings now lead to another host")

// identity names the connection that settings lead to: the account and the resolved hops
// before it. Hosts with the same identity share one connection, and what is remembered of
// an account is kept by it: behind another gate, the same address is another machine.
// before are the hops that led here.
func (p *Pool) identity(ctx context.Context, s *sshconfig.Settings, before ...string) (string, error) {
	hop := strings.Join(s.ProxyJump, ",")
	switch {
	case s.ProxyCommand != "":
		return via(s, s.ProxyCommand), nil
	case hop == "":
		return s.Account(), nil
	case slices.Contains(before, hop):
		return via(s, hop), nil // a loop; the dial reports it
	}
	p.mu.Lock()
	last := p.hosts[hop] // it is not added to the pool here
	p.mu.Unlock()
	if last != nil {
		if c, err := last.current(); err == nil {
			return via(s, c.identity), nil // the dial would use that connection, whatever the settings are now
		}
	}
	there, err := p.Settings(ctx, hop)
	if err != nil {
		return "", viaError(hop, err)
	}
	way, err := p.identity(ctx, &there, append(before, hop)...)
	if err != nil {
		return "", err
	}
	return via(s, way), nil
}

// via is the identity of what settings lead to by a way: a ProxyCommand, or the identity of
// the last hop.
func via(s *sshconfig.Settings, way string) string { return s.Account() + " via " + way }

// Account is user@address of the live connection, or of the last try, and the way there;
// "" before the first.
func (h *Host) Account() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.identity
}

// updateIdentity records where the host's settings lead now. Hosts that share the
// connection want the account, not this name: if the name leads elsewhere, they look for
// another owner. It reports whether the host is still wanted.
func (h *Host) updateIdentity(identity string) bool {
	h.pool.dropOwnership(h, identity) // before its users wake
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity = identity
	if h.demand.keepSharers(identity) {
		h.unwantLocked()
		h.publishLocked()
	}
	return h.facts.wanted
}

// sharedOrOwn is the connection of another host that owns this identity; nil if this
// host owns it, or accepts other host keys than the owner.
func (t *attempt) sharedOrOwn(ctx context.Context) (*conn, error) {
	for {
		owner := t.pool.owner(t.host, t.identity)
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
		t.pool.owners.CompareAndSwap(t.identity, owner, t.host) // the old owner's settings changed
	}
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

// checkAccount prevents an automatic login to an account that was never logged in to:
// what Memory says about silent logins is about other accounts.
func (t *attempt) checkAccount() error {
	known := t.pool.o.Memory.Known(t.host.name).Accounts
	if t.ask.attended || len(known) == 0 || slices.Contains(known, t.identity) {
		return nil
	}
	return needsUser(t.host.name, fmt.Sprintf("the settings now lead to %s, where you have not logged in yet", t.identity), nil)
}

// recheckSettings compares the settings in use with the current ones.
func (h *Host) recheckSettings(ctx context.Context) {
	h.mu.Lock()
	concerned := h.facts.wanted || h.facts.live != nil
	h.mu.Unlock()
	if !concerned {
		return
	}
	now, err := h.pool.Settings(ctx, h.name)
	identity := ""
	if err == nil {
		identity, err = h.pool.identity(ctx, &now, h.name)
	}
	if err != nil {
		h.log.Debug("the settings cannot be read after a reload", "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.facts
	same := now.SameDial(h.used)
	switch {
	case f.trying != "":
		h.recheckDue = true // after the try
		return
	case f.live != nil:
		h.outdated = !same
	case !same:
		f.tries.ForgetFailures()
		if stop := f.tries.Stop; stop != nil && (stop.Why.Code == api.CodeConfig || identity != h.identity) {
			f.tries.Stop = nil // it was about other settings
		}
		if identity != h.identity {
			f.tries.ForgetLogins()
		}
		h.wake()
	}
	h.enterLocked()
}

// outdatedText says that a live connection's settings differ from the config.
func outdatedText(host string) string {
	return fmt.Sprintf("the settings of %s changed after it was connected; `tunctl logout %s` and `tunctl login %s` use the new ones", api.HostLabel(host), host, host)
}

// useHost makes this host a user of another, to jump through it or, with an identity, to
// share its connection. The other host is wanted as long as this one, and must be
// connected now. Its first failed try fails this one too, which has its own backoff.
func (t *attempt) useHost(ctx context.Context, other *Host, identity string) error {
	if !t.addUserOf(other, identity) {
		return failure.Permanent.Errorf(api.CodeConfig, nil, "%s jumps through itself", t.host.label()).
			WithHint("check its ProxyJump in the ssh settings")
	}
	return other.await(ctx, t.host, func(f *facts) *api.Error {
		if f.tries.Failures > 0 {
			return f.failure
		}
		return nil
	})
}

// addUserOf makes this host a user of another, unless that one goes through this one. Two
// hosts that jump through each other must not both find out that the other does not yet.
func (t *attempt) addUserOf(other *Host, identity string) bool {
	t.pool.using.Lock()
	defer t.pool.using.Unlock()
	if other == t.host || t.pool.goesThrough(other, t.host) {
		return false
	}
	other.addUser(t.host, identity, t.ask.attended, t.ask.client)
	return true
}

// goesThrough reports whether a host jumps through another, directly or not.
func (p *Pool) goesThrough(h, through *Host) bool {
	return slices.ContainsFunc(through.usersNow(), func(u *Host) bool { return u == h || p.goesThrough(h, u) })
}

// addUser marks the host as wanted by another that jumps through it, or shares the
// connection of that identity.
func (h *Host) addUser(user *Host, identity string, attended bool, client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.demand.users[user] = identity
	h.facts.wanted = true
	if attended && h.facts.live == nil {
		h.attendLocked(client)
		return
	}
	h.enterLocked()
	h.wake()
}

// releaseHosts ends all use that a host makes of others.
func (p *Pool) releaseHosts(user *Host) {
	p.dropOwnership(user, "") // its settings may have changed when it is next wanted
	for _, h := range p.allHosts() {
		h.removeUser(user)
	}
}

// removeUser ends the use of this host by another.
func (h *Host) removeUser(user *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, uses := h.demand.users[user]; uses {
		delete(h.demand.users, user)
		h.unwantLocked()
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
