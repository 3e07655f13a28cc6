package tunnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/sshconfig"
)

// errLeadsElsewhere is the error of who wanted to share a connection that the owner's
// settings no longer lead to.
var errLeadsElsewhere = errors.New("the settings now lead to another host")

// settings are what the host's next dial goes by.
func (h *Host) settings(ctx context.Context) (sshconfig.Settings, error) {
	r := h.pool.resolver()
	if h.behind != "" {
		r.User = h.pool.Host(h.behind).Status().User
	}
	return r.Settings(ctx, h.name)
}

// identity names the connection that settings lead to: the account and the way there,
// all names of hops resolved. Hosts of one identity share one connection. Those before
// are the hops that led here.
func (p *Pool) identity(ctx context.Context, s *sshconfig.Settings, before ...string) (string, error) {
	hop := strings.Join(s.ProxyJump, ",")
	switch {
	case s.ProxyCommand != "":
		return s.Account() + " via " + s.ProxyCommand, nil
	case hop == "":
		return s.Account(), nil
	case slices.Contains(before, hop):
		return s.Account() + " via " + hop, nil // a circle, which the dial complains about
	}
	there, live, err := p.hopSettings(ctx, hop)
	if live != "" {
		return s.Account() + " via " + live, nil // it would go through that one, whatever its settings are by now
	}
	if err != nil {
		return "", viaError(hop, err)
	}
	way, err := p.identity(ctx, &there, append(before, hop)...)
	if err != nil {
		return "", err
	}
	return s.Account() + " via " + way, nil
}

// hopSettings are what a hop would be dialled by, or the identity of the connection
// that it has. A hop is not put into the pool for that.
func (p *Pool) hopSettings(ctx context.Context, name string) (s sshconfig.Settings, live string, err error) {
	p.mu.Lock()
	h := p.hosts[name]
	p.mu.Unlock()
	if h == nil {
		s, err = p.Settings(ctx, name)
		return s, "", err
	}
	if c, err := h.current(); err == nil {
		return sshconfig.Settings{}, c.identity, nil
	}
	s, err = h.settings(ctx)
	return s, "", err
}

// ErrOtherAccount is wrapped when the connection of a host is to another account than
// the caller meant: the config can make a name stand for another.
var ErrOtherAccount = errors.New("the host is another account now")

// Account is who the person is on the host and where that is, as user@address: by the
// live connection, else by the last try. "" before the first.
func (h *Host) Account() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used.Destination == "" {
		return ""
	}
	return h.used.Account()
}

// RunAs is Run on that account and no other.
func (h *Host) RunAs(ctx context.Context, account, command string, stdin []byte) (Result, error) {
	c, err := h.current()
	if err != nil {
		return Result{}, err
	}
	if now := c.settings.Account(); now != account {
		return Result{}, fmt.Errorf("%s: %w: %s, not %s", h.label(), ErrOtherAccount, now, account)
	}
	return c.runNamed(ctx, h.label(), command, stdin)
}

// leadsTo takes note of where the host's settings lead. Who shares a connection wants
// that account, not this name: where the name leads elsewhere now, they look for
// another owner. It reports whether the host is still wanted.
func (h *Host) leadsTo(identity string) bool {
	h.pool.disown(h, identity) // before they wake
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.users)
	maps.DeleteFunc(h.users, func(_ *Host, shared string) bool { return shared != "" && shared != identity })
	if len(h.users) < before {
		h.unusedLocked()
		h.publishLocked()
	}
	return h.facts.wanted
}

// sharedOrOwn is the connection of the host that owns the one we want; nil where we
// are that host.
func (t *attempt) sharedOrOwn(ctx context.Context) (*conn, error) {
	for {
		owner := t.pool.owner(t.host, t.identity)
		if owner == t.host {
			return nil, nil
		}
		c, err := t.share(ctx, owner)
		if !errors.Is(err, errLeadsElsewhere) {
			return c, err
		}
		owner.giveBack(t.host)
		t.pool.replaceOwner(t.identity, owner, t.host)
	}
}

// replaceOwner makes a host the owner of a connection that its owner does not lead to.
func (p *Pool) replaceOwner(identity string, owner, by *Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners[identity] == owner {
		p.owners[identity] = by
	}
}

// checkAccount keeps us from logging in by ourselves where the earlier logins, which
// say that no person is needed, were to other accounts.
func (t *attempt) checkAccount() error {
	known, now := t.pool.o.Memory.Accounts(t.host.name), t.settings.Account()
	if t.attended || len(known) == 0 || slices.Contains(known, now) {
		return nil
	}
	return t.host.needsPerson(fmt.Sprintf("the settings now lead to %s, where you have not logged in yet", now), nil)
}

// reread compares the settings that the host goes by with those of now.
func (h *Host) reread(ctx context.Context) {
	h.mu.Lock()
	concerned := h.facts.wanted || h.facts.live != nil
	h.mu.Unlock()
	if !concerned {
		return
	}
	now, err := h.settings(ctx)
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
		h.rereadDue = true // once it is clear what the try leads to
		return
	case f.live != nil:
		h.outdated = !same
	case !same:
		f.failures, f.nextTry = 0, time.Time{}
		if f.stop != nil && (f.stop.why.Code == api.CodeConfig || now.Account() != h.used.Account()) {
			f.stop = nil // it was about other settings
		}
		if now.Account() != h.used.Account() {
			f.refusals, f.ban, f.lastLogin = 0, time.Time{}, time.Time{}
		}
		h.kicked()
	}
	h.enterLocked()
}

// outdatedLocked says that the live connection's settings are no longer what the config
// says; "" where they are.
func (h *Host) outdatedLocked() string {
	if !h.outdated || h.facts.live == nil {
		return ""
	}
	return fmt.Sprintf("the settings of %s changed after it was connected; `tunctl logout %s` and `tunctl login %s` use the new ones", h.label(), h.name, h.name)
}
