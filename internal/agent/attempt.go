package agent

import (
	"time"

	"tunctl/internal/agent/submit"
	"tunctl/jobwatch"
)

// permitted reports whether the agent may submit the session's job.
func (s *session) permitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt != nil && s.attempt.permit.Live(time.Now())
}

// permittedByPerson reports whether a person asked for the job, and not an assistant only.
func (s *session) permittedByPerson() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt != nil && s.attempt.permit.ByPerson(time.Now())
}

// grantLocked records a person's permission. A job that was started by hand is never
// submitted again, and a session with only forwards has no job.
func (s *session) grantLocked(r *attempt, waiter string) {
	if s.byJob() || !s.hasJobLocked() {
		return
	}
	r.permit.Grant(waiter, s.agent.limits.Permit)
	s.expireLocked(r)
}

// expireLocked ends the permission of an attempt when its time is over.
func (s *session) expireLocked(r *attempt) {
	end := r.permit.End()
	s.agent.work.Go(func() {
		for time.Now().Before(end) {
			select {
			case <-wallTimer(end):
			case <-r.done:
				return
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lapseLocked(r)
	})
}

// endPermitLocked ends the permission to submit: it was used, is not needed, or a person has
// cancelled the job.
func (s *session) endPermitLocked() {
	if s.attempt != nil && !s.attempt.permit.IsZero() {
		s.attempt.permit, s.asked = submit.Permit{}, submit.Plan{}
	}
}

// settlePermitLocked ends the permission if the scheduler says that the session has a job.
func (s *session) settlePermitLocked(r jobwatch.Report) {
	if s.attempt != nil && s.attempt.permit.SettledBy(r) {
		s.endPermitLocked()
	}
}

// revoke ends the permission of a command that no longer waits.
func (s *session) revoke(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil && s.attempt.permit.Revoke(waiter) {
		s.lapseLocked(s.attempt)
	}
}

// lapseLocked ends the permission of an attempt once no command waits any more: from then
// on the agent only adopts an existing job.
func (s *session) lapseLocked(r *attempt) {
	if s.attempt != r || r.permit.IsZero() || r.permit.Live(time.Now()) {
		return // of an earlier attempt, used, or still valid
	}
	r.permit, r.who, s.asked = submit.Permit{}, byAgent, submit.Plan{}
	s.agent.log.Info("nobody waits for the job any more: it will not be submitted", "session", s.name)
	s.enterLocked()
}

// wouldSubmitLocked reports whether the session needs a submission to get a job.
func (s *session) wouldSubmitLocked() bool {
	return s.facts.Job == nil && s.facts.Remembered == nil && s.cfg.Submit != ""
}

// waiterLeft ends what a command permitted, after its stream has ended.
func (a *Agent) waiterLeft(name string) {
	a.waiters.Exit(name)
	if a.waiters.Has(name) {
		return
	}
	for _, s := range a.live() {
		s.revoke(name)
	}
}
