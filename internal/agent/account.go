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

// errAccountChanged ends what was begun on an account that the host no longer is.
var errAccountChanged = errors.New("the host is connected as another account")

// stayUp brings the session up, and looks for its job again when the host comes back as
// another account: after an edit of the config that may be another cluster, or the same
// one by another address. What a person permitted was for the first one.
func (s *session) stayUp(ctx context.Context, host *tunnel.Host) error {
	for {
		err := s.bringUpThere(ctx, host)
		if !errors.Is(err, errAccountChanged) || ctx.Err() != nil {
			return err
		}
		s.agent.log.Info("the host is connected as another account; looking for the job there", "session", s.name, "account", host.Account())
		s.mu.Lock()
		if s.run != nil {
			s.run.permit, s.run.who = nil, byItself
			s.facts.lapsed = s.lapsedLocked()
			s.enterLocked()
		}
		s.mu.Unlock()
	}
}

// bringUpThere is bringUp for as long as the host is the account it is first connected
// to.
func (s *session) bringUpThere(ctx context.Context, host *tunnel.Host) error {
	if !s.needsJob() {
		return s.bringUp(ctx, host) // its forwards go wherever the host is
	}
	there, leave := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	first := liveAccount(host)
	watch.Go(func() { leave(whenAccountChanges(there, host, first)) })
	err := s.bringUp(there, host)
	leave(nil)
	watch.Wait()
	if errors.Is(context.Cause(there), errAccountChanged) || errors.Is(err, tunnel.ErrOtherAccount) {
		return errAccountChanged
	}
	return err
}

// liveAccount is the one that the host is connected to; "" where it is not connected.
func liveAccount(host *tunnel.Host) string {
	if host.Status().State != api.HostUp {
		return ""
	}
	return host.Account()
}

// whenAccountChanges returns errAccountChanged once the host is connected to another
// account than the first, which is the next one where it is "".
func whenAccountChanges(ctx context.Context, host *tunnel.Host, first string) error {
	for {
		changed := host.Changed()
		now := liveAccount(host)
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

// isRecorded reports whether a job with a remembered number is the remembered job. On
// another account the number alone means nothing.
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

// jobElsewhere says that the remembered job is on another account than now; "" where it
// is not.
func (s *session) jobElsewhere(rec state.Session, now string) string {
	if rec.Job == nil || !rec.Elsewhere(now) {
		return ""
	}
	return fmt.Sprintf("job %s was started as %s, and %s is now %s", rec.Job.ID, rec.Account, s.host(), now)
}

// whereToCancel is the watcher that can end the session's job. A job is never ended by
// its number on another account than its own.
func (s *session) whereToCancel(rec state.Session) (*jobwatch.Watcher, error) {
	host := s.host()
	jobs, account := s.agent.watcherOn(host)
	if s.agent.pool.Host(host).Status().State != api.HostUp {
		return nil, jobOutOfReach(host, rec.Job.ID, "cancelled")
	}
	if text := s.jobElsewhere(rec, account); text != "" {
		return nil, &api.Error{Code: api.CodeFailed, Message: text, Hint: fmt.Sprintf("cancel the job as that account; `tunctl down %s` leaves it running", s.name)}
	}
	return jobs, nil
}
