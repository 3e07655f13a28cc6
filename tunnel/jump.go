package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// jump reaches the host through its last hop. The hop is a host of its own, shared with
// all that go through it.
func (t *attempt) jump(ctx context.Context, limit time.Duration) (net.Conn, []string, error) {
	hop := t.pool.jumpHost(t.settings.ProxyJump)
	t.step("connecting to " + hop.label() + " first")
	if err := t.useHost(ctx, hop, ""); err != nil {
		return nil, nil, viaError(hop.label(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.step(fmt.Sprintf("connecting to %s from %s", t.settings.Address(), hop.label()))
	c, err := hop.current()
	if err != nil {
		return nil, nil, jumpError(hop.label(), t.settings.Address(), err)
	}
	if t.identity != via(&t.settings, c.identity) {
		return nil, nil, failure.Passing.Errorf(api.CodeUnreachable, nil, "the settings of %s changed while connecting to %s",
			hop.label(), t.settings.Address())
	}
	raw, err := c.dialHop(ctx, "tcp", t.settings.Address())
	if err != nil {
		return nil, nil, jumpError(hop.label(), t.settings.Address(), err)
	}
	last := t.settings.ProxyJump[len(t.settings.ProxyJump)-1] // a hop's name includes the hops before it
	return raw, append(slices.Clone(hop.Status().Via), last), nil
}

// jumpHost is the host of the last hop. A single hop uses its own settings; a later one
// goes through those before it.
func (p *Pool) jumpHost(hops []string) *Host { return p.Host(strings.Join(hops, ",")) }

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

// viaError adds which hop failed.
func viaError(hop string, err error) error {
	e := *asError(err)
	e.Message = fmt.Sprintf("cannot connect through %s: %s", hop, e.Message)
	e.Err = err
	return &e
}

// jumpError describes a failed dial from a hop.
func jumpError(hop, address string, err error) *api.Error {
	e := failure.Passing.Errorf(api.CodeUnreachable, err, "%s cannot be reached from %s: %v",
		address, hop, err)
	if errors.Is(err, api.ErrProhibited) {
		e.Code, e.Err = api.CodeForward, failure.Permanent.Wrap(err)
		e.Message = fmt.Sprintf("%s does not allow connections to %s", hop, address)
	}
	return e
}
