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
)

// jump reaches the host through the last of its hops, which is a host of its own:
// shared with whoever else goes through it, and kept.
func (t *attempt) jump(ctx context.Context, limit time.Duration) (net.Conn, []string, error) {
	hop := t.pool.hop(t.settings.ProxyJump)
	t.host.step("connecting to " + hop.label() + " first")
	if err := t.borrow(ctx, hop, ""); err != nil {
		return nil, nil, viaError(hop.label(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.host.step(fmt.Sprintf("connecting to %s from %s", t.settings.Address(), hop.label()))
	c, err := hop.current()
	if err != nil {
		return nil, nil, t.beyond(hop, err)
	}
	if t.identity != t.settings.Account()+" via "+c.identity {
		return nil, nil, &api.Error{Code: api.CodeUnreachable, Message: fmt.Sprintf("the settings of %s changed while connecting to %s", hop.label(), t.settings.Address()), Err: classPassing.of(nil)}
	}
	raw, err := c.dial(ctx, "tcp", t.settings.Address())
	if err != nil {
		return nil, nil, t.beyond(hop, err)
	}
	last := t.settings.ProxyJump[len(t.settings.ProxyJump)-1] // the hop's own name tells the way to it, too
	return raw, append(slices.Clone(hop.Status().Via), last), nil
}

// hop is the host for the last of some hops. One that stands alone goes by its own
// settings; a later one goes through those before it.
func (p *Pool) hop(hops []string) *Host { return p.Host(strings.Join(hops, ",")) }

// borrow makes another host ours to go through, or, with an identity, to share the
// connection of: wanted as long as we are, and connected now. Its first failed try is
// ours too: the backoff is then our own.
func (t *attempt) borrow(ctx context.Context, other *Host, identity string) error {
	if other == t.host || t.pool.goesThrough(other, t.host) {
		return &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("%s jumps through itself", t.host.label()), Hint: "check its ProxyJump in the ssh settings", Err: classPermanent.of(nil)}
	}
	other.lend(t.host, identity, t.attended, t.client)
	return other.await(ctx, t.host, func(f *facts) *api.Error {
		if f.failures > 0 {
			return f.failure
		}
		return nil
	})
}

// goesThrough reports whether a host needs another, maybe through more of them.
func (p *Pool) goesThrough(h, through *Host) bool {
	return slices.ContainsFunc(through.usersNow(), func(u *Host) bool { return u == h || p.goesThrough(h, u) })
}

// lend marks the host as wanted by another that goes through it, or shares the
// connection of that identity.
func (h *Host) lend(user *Host, identity string, attended bool, client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users[user] = identity
	h.facts.wanted = true
	if attended && h.facts.live == nil {
		h.attendLocked(client)
		return
	}
	h.enterLocked()
	h.kicked()
}

// giveBack ends the use of every host that another went through.
func (p *Pool) giveBack(user *Host) {
	p.disown(user, "") // a name that is not wanted may lead elsewhere when it next is
	for _, h := range p.all() {
		h.giveBack(user)
	}
}

// giveBack ends the use that another made of this host.
func (h *Host) giveBack(user *Host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, uses := h.users[user]; uses {
		delete(h.users, user)
		h.unusedLocked()
	}
}

// viaError says which hop failed.
func viaError(hop string, err error) error {
	e := *asError(err)
	e.Message = fmt.Sprintf("cannot connect through %s: %s", hop, e.Message)
	e.Err = err
	return &e
}

// beyond puts a failed dial from a hop into words.
func (t *attempt) beyond(hop *Host, err error) *api.Error {
	e := &api.Error{Code: api.CodeUnreachable, Err: classPassing.of(err), Message: fmt.Sprintf("%s cannot be reached from %s: %v", t.settings.Address(), hop.label(), err)}
	if errors.Is(err, api.ErrProhibited) {
		e.Code, e.Err = api.CodeForward, classPermanent.of(err)
		e.Message = fmt.Sprintf("%s does not allow connections to %s", hop.label(), t.settings.Address())
	}
	return e
}
