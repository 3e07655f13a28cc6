package agent

import (
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// permit is a person's permission to submit a session's job once. A command permits as long as
// it waits; a click, which has no name, until the time is over. The first answer of the
// scheduler to a query that began after it was given settles it: the session has a job, or one
// is submitted.
type permit struct {
	given time.Time            // the last time
	until map[string]time.Time // by the name of the command; wall clock times, which also pass while a laptop sleeps
}

// live reports whether a job may be submitted.
func (p permit) live(now time.Time) bool { return now.Before(p.end()) }

// end is when the last permission ends; zero without any.
func (p permit) end() time.Time {
	var end time.Time
	for _, until := range p.until {
		if until.After(end) {
			end = until
		}
	}
	return end
}

// settledBy reports whether an answer of the scheduler says that the session has a job. One to
// an earlier query does not, nor one about a job that is about to end.
func (p permit) settledBy(r jobwatch.Report) bool {
	live := !r.State.Ended() && r.State != api.JobUnknown && r.State != api.JobCompleting
	return live && !r.Asked.IsZero() && !r.Asked.Before(p.given)
}

// permitted reports whether the agent may submit the session's job.
func (s *session) permitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempt != nil && s.attempt.permit.live(time.Now())
}

// grantLocked records a person's permission. A job that was started by hand is never
// submitted again, and a session with only forwards has no job.
func (s *session) grantLocked(r *attempt, waiter string) {
	if s.byJob() || !s.hasJobLocked() {
		return
	}
	if r.permit.until == nil {
		r.permit.until = map[string]time.Time{}
	}
	r.permit.given = time.Now()
	r.permit.until[waiter] = r.permit.given.Round(0).Add(s.agent.limits.Permit)
	s.expireLocked(r)
}

// expireLocked ends the permission of an attempt when its time is over.
func (s *session) expireLocked(r *attempt) {
	end := r.permit.end()
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
	if s.attempt != nil && s.attempt.permit.until != nil {
		s.attempt.permit, s.asked = permit{}, nil
	}
}

// settlePermitLocked ends the permission if the scheduler says that the session has a job.
func (s *session) settlePermitLocked(r jobwatch.Report) {
	if s.attempt != nil && s.attempt.permit.settledBy(r) {
		s.endPermitLocked()
	}
}

// revoke ends the permission of a command that no longer waits.
func (s *session) revoke(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return
	}
	if _, gave := s.attempt.permit.until[waiter]; gave {
		delete(s.attempt.permit.until, waiter)
		s.lapseLocked(s.attempt)
	}
}

// lapseLocked ends the permission of an attempt once no command waits any more: from then
// on the agent only adopts an existing job.
func (s *session) lapseLocked(r *attempt) {
	if s.attempt != r || r.permit.until == nil || r.permit.live(time.Now()) {
		return // of an earlier attempt, used, or still valid
	}
	r.permit, r.who, s.asked = permit{}, byAgent, nil
	s.agent.log.Info("nobody waits for the job any more: it will not be submitted", "session", s.name)
	s.enterLocked()
}

// wouldSubmitLocked reports whether the session needs a submission to get a job.
func (s *session) wouldSubmitLocked() bool {
	return s.facts.Job == nil && s.facts.Remembered == nil && s.cfg.Submit != ""
}

// waiters are the commands that wait for sessions. Each keeps a stream of events open
// under its own name.
type waiters struct {
	mu      sync.Mutex
	streams []string
}

func (w *waiters) enter(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams = append(w.streams, name)
}

func (w *waiters) exit(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.streams, name); i >= 0 {
		w.streams = slices.Delete(w.streams, i, i+1)
	}
}

// has reports whether a command waits. The empty name always counts as waiting, and an
// assistant: what its up permits does not end with its request.
func (w *waiters) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return name == "" || name == assistantWaiter || slices.Contains(w.streams, name)
}

// waiterLeft ends what a command permitted, after its stream has ended.
func (a *Agent) waiterLeft(name string) {
	a.waiters.exit(name)
	if a.waiters.has(name) {
		return
	}
	for _, s := range a.live() {
		s.revoke(name)
	}
}
