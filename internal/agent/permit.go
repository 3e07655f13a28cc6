package agent

import (
	"context"
	"sync"
	"time"
)

// permit is a person's permission to submit a session's job once: until when, by the name
// of the command that gave it. A command permits as long as it waits; a click, which has
// no name, until the time is over. The times are wall clock times: they also pass while
// a laptop sleeps.
type permit map[string]time.Time

// live reports whether a job may be submitted.
func (p permit) live(now time.Time) bool { return now.Before(p.end()) }

// end is when the last permission ends; zero without any.
func (p permit) end() time.Time {
	var end time.Time
	for _, until := range p {
		if until.After(end) {
			end = until
		}
	}
	return end
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
	if s.attached || !s.hasJobLocked() {
		return
	}
	if r.permit == nil {
		r.permit = permit{}
	}
	r.permit[waiter] = time.Now().Round(0).Add(s.agent.limits.Permit)
	s.facts.lapsed = false
	offer(r.granted, struct{}{})
}

// usePermitLocked ends the permission to submit: the session has its job.
func (s *session) usePermitLocked() {
	if s.attempt != nil {
		s.attempt.permit = nil
	}
}

// expire ends the permission of an attempt when its time is over.
func (s *session) expire(ctx context.Context, r *attempt) {
	for {
		s.mu.Lock()
		end := r.permit.end()
		s.mu.Unlock()
		select {
		case <-r.granted:
		case <-wallTimer(end):
			s.mu.Lock()
			s.lapseLocked(r)
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// revoke ends the permission of a command that no longer waits.
func (s *session) revoke(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return
	}
	if _, gave := s.attempt.permit[waiter]; gave {
		delete(s.attempt.permit, waiter)
		s.lapseLocked(s.attempt)
	}
}

// lapseLocked ends the permission of an attempt once no command waits any more: from then
// on the agent only adopts an existing job.
func (s *session) lapseLocked(r *attempt) {
	if s.attempt != r || r.permit == nil || r.permit.live(time.Now()) {
		return // of an earlier attempt, used, or still valid
	}
	r.permit, r.who, s.asked = nil, byAgent, nil
	s.facts.lapsed = s.wouldSubmitLocked()
	s.agent.log.Info("nobody waits for the job any more: it will not be submitted", "session", s.name)
	s.enterLocked()
}

// wouldSubmitLocked reports whether the session needs a submission to get a job.
func (s *session) wouldSubmitLocked() bool { return s.facts.job == nil && s.cfg.Submit != "" }

// waiters are the commands that wait for sessions. Each keeps a stream of events open
// under its own name.
type waiters struct {
	mu      sync.Mutex
	streams map[string]int
}

func (w *waiters) enter(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams == nil {
		w.streams = map[string]int{}
	}
	w.streams[name]++
}

func (w *waiters) exit(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams[name]--; w.streams[name] <= 0 {
		delete(w.streams, name)
	}
}

// has reports whether a command waits. The empty name always counts as waiting.
func (w *waiters) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return name == "" || w.streams[name] > 0
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
