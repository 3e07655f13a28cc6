package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"tunctl/internal/api"
)

// jump reaches the host through the last of its hops, which is a host of its own:
// shared with whoever else goes through it, and kept.
func (t *attempt) jump(ctx context.Context, limit time.Duration) (net.Conn, []string, error) {
	hops := t.settings.ProxyJump
	hop := t.pool.hop(hops)
	if hop == t.host {
		return nil, nil, &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("%s jumps through itself", t.host.name)}
	}
	t.host.step("connecting to " + hop.name + " first")
	hop.lend(t.host, t.attended)
	if err := hop.Await(ctx); err != nil {
		return nil, nil, viaError(hop.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.host.step(fmt.Sprintf("dialling %s from %s", t.settings.address(), hop.name))
	raw, err := hop.Dial(ctx, "tcp", t.settings.address())
	if err != nil {
		return nil, nil, t.beyond(hop, err)
	}
	return raw, append(hop.Status().Via, hop.name), nil
}

// hop is the host for the last of some hops. One that is named first in the list
// goes by its own settings; a later one goes through those before it.
func (p *Pool) hop(hops []string) *Host {
	last := len(hops) - 1
	name := strings.Join(hops, ",")
	if last == 0 {
		name = hops[0]
	}
	return p.host(name, func() *Host {
		var via []string
		if last > 0 {
			via = hops[:last]
		}
		return newHost(p, name, hopDestination(hops[last]), via)
	})
}

// lend marks the host as wanted by another that goes through it.
func (h *Host) lend(user *Host, attended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users[user] = true
	h.facts.wanted = true
	if attended && h.facts.live == nil {
		h.attendLocked()
		return
	}
	h.enterLocked()
	h.kicked()
}

// giveBack ends the use of every host that another went through.
func (p *Pool) giveBack(user *Host) {
	for _, h := range p.all() {
		h.mu.Lock()
		if h.users[user] {
			delete(h.users, user)
			h.unwantLocked()
		}
		h.mu.Unlock()
	}
}

// viaError says that a hop is what stands in the way.
func viaError(hop string, err error) error {
	e := *asError(err)
	e.Message = fmt.Sprintf("on the way through %s: %s", hop, e.Message)
	e.Err = err
	return &e
}

// beyond puts a failed dial from a hop into words.
func (t *attempt) beyond(hop *Host, err error) *api.Error {
	e := &api.Error{Code: api.CodeUnreachable, Err: err, Message: fmt.Sprintf("%s cannot be reached from %s: %v", t.settings.address(), hop.name, err)}
	if errors.Is(err, ErrProhibited) {
		e.Code = api.CodeForward
		e.Message = fmt.Sprintf("%s does not allow connections to %s", hop.name, t.settings.address())
	}
	return e
}
