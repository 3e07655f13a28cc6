package session

import (
	"context"
	"errors"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// attempt is one attempt to bring a session up and keep it up.
type attempt struct {
	session *Session
	host    *tunnel.Host
	cancel  context.CancelFunc
	done    chan struct{}

	// Guarded by session.mu:
	who    requester // the user may ask for what the agent has started
	client string    // through which the user last asked
}

// launchLocked begins an attempt.
func (r *attempt) launchLocked() {
	s := r.session
	ctx, cancel := context.WithCancel(s.parts.Ctx)
	r.cancel, s.attempt = cancel, r
	s.enterLocked()
	s.parts.Work.Go(func() { s.Meter.Serve(ctx) })
	s.parts.Work.Go(func() {
		defer r.dropFailed() // after done, which a stop waits for
		defer close(r.done)
		defer cancel()
		r.finish(r.stayUp(ctx))
		s.observer.observe()
	})
}

// finish records why an attempt ended. The listener stays, and shows it.
func (r *attempt) finish(err error) {
	s := r.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != r {
		return // taken down meanwhile
	}
	s.attempt = nil
	if s.parts.Ctx.Err() != nil {
		return // the agent stops: the session is still wanted
	}
	failure := api.Error{Code: api.CodeJobEnded, Message: "the session ended"}
	if err != nil {
		failure = *api.AsError(err)
	}
	if (failure.Code == api.CodeJobEnded || s.facts.JobOver()) && s.facts.Permit.Live(time.Now()) {
		again := s.newAttemptLocked(r.host, byPerson, r.client) // the user asked just as the attempt ended, or for a job that was over
		again.expireLocked()
		again.launchLocked()
		return
	}
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		s.facts.Candidates = several.Jobs
	}
	s.facts.Answers, s.facts.Looking, s.facts.Permit = false, false, submit.Permit{}
	// The next agent shows it too, since it can submit no job either; a log's token is not saved.
	secrets := s.pages.secrets(s.facts.Endpoint)
	failure.Message, failure.Hint = api.Redact(failure.Message, secrets...), api.Redact(failure.Hint, secrets...)
	_ = s.recordLocked(func(r *state.Session) { r.Failure = &failure })
}

// isByPerson reports whether the user asked for it.
func (r *attempt) isByPerson() bool {
	r.session.mu.Lock()
	defer r.session.mu.Unlock()
	return r.who == byPerson
}

// grantLocked records the user's permission. A job that was started by hand is never
// submitted again, and a session with only forwards has no job.
func (r *attempt) grantLocked(waiter string) {
	s := r.session
	if s.origin.isJob() || !s.hasJobLocked() {
		return
	}
	s.facts.Permit.Grant(waiter, s.parts.Limits.Permit)
	r.expireLocked()
}

// expireLocked ends the permission of an attempt when its time is over.
func (r *attempt) expireLocked() {
	s := r.session
	end := s.facts.Permit.End()
	s.parts.Work.Go(func() {
		for time.Now().Before(end) {
			select {
			case <-ctxtime.WallTimer(end):
			case <-r.done:
				return
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		r.lapseLocked()
	})
}

// Revoke ends the permission of a command that no longer waits.
func (s *Session) Revoke(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil && s.facts.Permit.Revoke(waiter) {
		s.attempt.lapseLocked()
	}
}

// lapseLocked ends the permission of an attempt once no command waits any more: from then
// on the agent only adopts an existing job.
func (r *attempt) lapseLocked() {
	s := r.session
	if s.attempt != r || s.facts.Permit.IsZero() || s.facts.Permit.Live(time.Now()) {
		return // of an earlier attempt, used, or still valid
	}
	r.who, s.facts.Permit, s.facts.Asked = byAgent, submit.Permit{}, submit.Plan{}
	s.parts.Log.Info("nobody waits for the job any more: it will not be submitted", "session", s.Name)
	s.enterLocked()
}
