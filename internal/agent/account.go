package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

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
			s.attempt.permit, s.attempt.who, s.asked = nil, byAgent, nil
			s.facts.lapsed = s.wouldSubmitLocked()
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
	first := connectedAccount(host)
	watch.Go(func() { leave(awaitAccountChange(there, host, first)) })
	err := s.bringUp(there, host)
	leave(nil)
	watch.Wait()
	if errors.Is(context.Cause(there), errAccountChanged) || errors.Is(err, tunnel.ErrOtherAccount) {
		return errAccountChanged
	}
	return err
}

// connectedAccount is the account that the host is connected to; "" if it is not
// connected.
func connectedAccount(host *tunnel.Host) string {
	if host.Status().State != api.HostUp {
		return ""
	}
	return host.Account()
}

// awaitAccountChange returns errAccountChanged once the host is connected to another
// account than the first. If first is "", that is the next one.
func awaitAccountChange(ctx context.Context, host *tunnel.Host, first string) error {
	for {
		changed := host.Changed()
		now := connectedAccount(host)
		if first == "" {
			first = now
		}
		if now != "" && now != first {
			return errAccountChanged
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isRecorded reports whether a job with a remembered ID is the remembered job. On another
// account the ID alone means nothing.
func isRecorded(r state.Session, q jobwatch.Query, job api.Job, account string) bool {
	if q.ID == "" || !r.Elsewhere(account) {
		return true
	}
	for _, was := range []*api.Job{r.Job, r.Next} {
		if was != nil && was.ID == job.ID && was.Name == job.Name && !was.Submitted.IsZero() && was.Submitted.Equal(job.Submitted) {
			return true
		}
	}
	return false
}

// jobOnOtherAccount says that the remembered job is on another account than the current
// one; "" if it is not.
func (s *session) jobOnOtherAccount(rec state.Session, now string) string {
	if rec.Job == nil || !rec.Elsewhere(now) {
		return ""
	}
	return fmt.Sprintf("job %s was started as %s, and %s is now %s", rec.Job.ID, rec.Account, s.host(), now)
}

// watcherToCancel is the watcher that can cancel the session's job. A job is never
// cancelled by its ID on another account than its own.
func (s *session) watcherToCancel(rec state.Session) (*jobwatch.Watcher, error) {
	host := s.host()
	jobs, account := s.agent.jobWatcherOn(host)
	if s.agent.pool.Host(host).Status().State != api.HostUp {
		if rec.Job == nil {
			return nil, notConnected(host, ", so it is not known whether the interrupted submission became a job")
		}
		return nil, jobOutOfReach(host, rec.Job.ID, "cancelled")
	}
	if text := s.jobOnOtherAccount(rec, account); text != "" {
		return nil, &api.Error{Code: api.CodeFailed, Message: text, Hint: fmt.Sprintf("cancel the job as that account; `tunctl down %s` leaves it running", s.name)}
	}
	return jobs, nil
}
