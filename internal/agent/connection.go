package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// runner lets jobwatch run commands over a host's connection, on one account only unless that
// is "": the ID of a job means another job once the host's name stands for another cluster.
type runner struct {
	host    *tunnel.Host
	account string
}

// Run implements remote.Runner.
func (r runner) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	if r.account == "" {
		res, err := r.host.Run(ctx, command, stdin)
		return remote.Result(res), err
	}
	res, err := r.host.RunAs(ctx, r.account, command, stdin)
	return remote.Result(res), err
}

// requireConnected refuses a host that is not connected. It never connects: that is up
// to a person.
func (a *Agent) requireConnected(host string) error {
	if !isUp(a.pool.Host(host)) {
		return notConnected(host, "")
	}
	return nil
}

// allowedAndConnected is requireConnected for a host that a person names.
func (a *Agent) allowedAndConnected(ctx context.Context, host string) error {
	if err := a.allowed(ctx, host); err != nil {
		return err
	}
	return a.requireConnected(host)
}

// notConnected is the error of what needs a connection to a host; the effect continues
// its message.
func notConnected(host, effect string) *api.Error {
	return api.Errorf(api.CodeUnreachable, "not connected to %s%s", host, effect).
		WithHint("`tunctl login %s` connects", host)
}

// jobOutOfReach is notConnected for what a person wants done to a job.
func jobOutOfReach(host, id, done string) *api.Error {
	e := notConnected(host, fmt.Sprintf(", so job %s cannot be %s now", id, done))
	e.Hint += ", then try again"
	return e
}

// retryUntilUp calls do until it succeeds or is refused. A lost connection, or a
// scheduler that does not respond, only delays it; waiting gets the reason. do may be
// called more than once, as a submission with one tag can be.
func (a *Agent) retryUntilUp(ctx context.Context, host *tunnel.Host, do func() error, waiting func(error)) error {
	for {
		err := do()
		if err == nil || !isTransient(err) || ctx.Err() != nil {
			return err
		}
		a.log.Info("retrying when the host responds", "host", host.Status().Alias, "err", err)
		waiting(err)
		pause := a.limits.Probe.Every
		if isNoAnswer(err) {
			pause = a.limits.Jobs.QueryMin
		}
		if err := ctxtime.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := awaitUp(ctx, host); err != nil {
			return err
		}
	}
}

// isTransient reports whether an error says nothing about the request itself: the
// connection was lost, all sessions were in use, or the scheduler did not respond.
func isTransient(err error) bool {
	return errors.Is(err, remote.ErrLost) || errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrBusy) || isNoAnswer(err)
}

// isNoAnswer reports whether the scheduler did not respond.
func isNoAnswer(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }

// awaitUp waits until the host is connected, however long that takes.
func awaitUp(ctx context.Context, host *tunnel.Host) error {
	return awaitHost(ctx, host, func() bool { return isUp(host) })
}

// awaitHost waits until done is true, which is asked at each change of the host.
func awaitHost(ctx context.Context, host *tunnel.Host, done func() bool) error {
	for {
		changed := host.Changed()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isUp reports whether the host is connected.
func isUp(host *tunnel.Host) bool { return host.Status().State == api.HostUp }

// errAccountChanged says that the host is connected to another account than before.
var errAccountChanged = errors.New("the host is connected as another account")

// stayUp brings the session up, and looks for its job again when the host reconnects to
// another account: after an edit of the config that may be another cluster, or the same
// one by another address. What a person permitted was for the first account.
func (s *session) stayUp(ctx context.Context, host *tunnel.Host) error {
	for {
		err := s.bringUpOnAccount(ctx, host)
		if !errors.Is(err, errAccountChanged) || ctx.Err() != nil {
			return err
		}
		s.agent.log.Info("the host is connected as another account; looking for the job there", "session", s.name, "account", host.Account())
		s.mu.Lock()
		if s.attempt != nil {
			s.attempt.permit, s.attempt.who, s.asked = permit{}, byAgent, nil
			s.enterLocked()
		}
		s.mu.Unlock()
	}
}

// bringUpOnAccount is bringUp until the host is connected to another account than at
// first.
func (s *session) bringUpOnAccount(ctx context.Context, host *tunnel.Host) error {
	if !s.hasJob() {
		return s.bringUp(ctx, host) // its forwards work with any account
	}
	there, leave := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	first := ""
	if isUp(host) {
		first = host.Account()
	}
	watch.Go(func() { leave(awaitAccountChange(there, host, first)) })
	err := s.bringUp(there, host)
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
	err := awaitHost(ctx, host, func() bool {
		if !isUp(host) {
			return false
		}
		first = cmp.Or(first, host.Account())
		return host.Account() != first
	})
	return cmp.Or(err, errAccountChanged)
}

// jobOnOtherAccount says that a remembered job is on another account than the current one; "" if
// it is not.
func jobOnOtherAccount(sub state.Submission, host, now string) string {
	if sub.Job == nil || !sub.Elsewhere(now) {
		return ""
	}
	return fmt.Sprintf("job %s was started as %s, and %s is now %s", sub.Job.ID, sub.Account, host, now)
}
