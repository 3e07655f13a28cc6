package session

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/submit"
	"tunctl/tunnel"
)

// errAccountChanged says that the host is connected to another account than before.
var errAccountChanged = errors.New("the host is connected as another account")

// stayUp brings the session up, and looks for its job again when the host reconnects to
// another account: after an edit of the config that may be another cluster, or the same
// one by another address. What the user permitted was for the first account.
func (r *attempt) stayUp(ctx context.Context) error {
	s := r.session
	for {
		err := r.bringUpOnAccount(ctx)
		if !errors.Is(err, errAccountChanged) || ctx.Err() != nil {
			return err
		}
		s.parts.Log.Info("the host is connected as another account; looking for the job there", "session", s.Name, "account", r.host.Account())
		s.mu.Lock()
		if s.attempt != nil {
			s.attempt.who, s.facts.Permit, s.facts.Asked = byAgent, submit.Permit{}, submit.Plan{}
			s.enterLocked()
		}
		s.mu.Unlock()
	}
}

// bringUpOnAccount is bringUp until the host is connected to another account than at
// first.
func (r *attempt) bringUpOnAccount(ctx context.Context) error {
	host := r.host
	if !r.session.HasJob() {
		return r.bringUp(ctx) // its forwards work with any account
	}
	there, leave := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	first := ""
	if hosts.IsUp(host) {
		first = host.Account()
	}
	watch.Go(func() { leave(awaitAccountChange(there, host, first)) })
	err := r.bringUp(there)
	leave(nil)
	watch.Wait()
	if errors.Is(context.Cause(there), errAccountChanged) || errors.Is(err, tunnel.ErrOtherAccount) {
		return errAccountChanged
	}
	return err
}

// awaitAccountChange returns errAccountChanged once the host is connected to another
// account than the first. If first is "", that is the next one.
func awaitAccountChange(ctx context.Context, host *tunnel.Host, first string) error {
	err := hosts.Await(ctx, host, func() bool {
		if !hosts.IsUp(host) {
			return false
		}
		first = cmp.Or(first, host.Account())
		return host.Account() != first
	})
	return cmp.Or(err, errAccountChanged)
}
