package agent

import (
	"context"
	"sync"
	"time"

	"tunctl/internal/api"
)

// permit is a person's permission to submit a session's job once: who gave it, and until
// when it lasts. A command that waits gives it for as long as it waits; a click, which
// has no name here, until its time is over. Times are the wall clock's: a laptop that
// slept through them has used them up.
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
	return s.run != nil && s.run.permit.live(time.Now())
}

// grantLocked records a person's permission, until its time is over. What was started
// by hand is never submitted, and forwards alone have no job.
func (s *session) grantLocked(r *run, waiter string) {
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
	if s.run != nil {
		s.run.permit = nil
	}
}

// expire ends the permission of a try when its time is over.
func (s *session) expire(ctx context.Context, r *run) {
	for {
		s.mu.Lock()
		end := r.permit.end()
		s.mu.Unlock()
		var ring <-chan time.Time
		if !end.IsZero() {
			ring = time.After(max(0, min(time.Until(end), wallCheck)))
		}
		select {
		case <-r.granted:
		case <-ring:
			s.mu.Lock()
			s.lapseLocked(r)
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// withdraw takes back the permission of a command that no longer waits.
func (s *session) withdraw(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return
	}
	if _, gave := s.run.permit[waiter]; gave {
		delete(s.run.permit, waiter)
		s.lapseLocked(s.run)
	}
}

// lapseLocked ends a person's permission once nobody waits any more: from then on the
// agent adopts the session's job where there is one, and never submits.
func (s *session) lapseLocked(r *run) {
	if s.run != r || r.permit == nil || r.permit.live(time.Now()) {
		return // of a try that is over, used up, or still in force
	}
	r.permit, r.who = nil, byItself
	s.facts.lapsed = s.lapsedLocked()
	s.agent.log.Info("nobody waits for the job any more: it will not be submitted", "session", s.name)
	s.enterLocked()
}

// lapsedLocked reports whether a job that nobody permits any more would be submitted.
func (s *session) lapsedLocked() bool { return s.facts.job == nil && s.cfg.Submit != "" }

// waiters are the commands that wait for sessions: each holds a stream of events open
// under a name of its own.
type waiters struct {
	mu   sync.Mutex
	here map[string]int
}

func (w *waiters) enter(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.here == nil {
		w.here = map[string]int{}
	}
	w.here[name]++
}

func (w *waiters) exit(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.here[name]--; w.here[name] <= 0 {
		delete(w.here, name)
	}
}

// waits reports whether a command waits; who has no name need not.
func (w *waiters) waits(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return name == "" || w.here[name] > 0
}

// waiterLeft is called when a command's stream has ended.
func (a *Agent) waiterLeft(name string) {
	a.waiters.exit(name)
	if a.waiters.waits(name) {
		return
	}
	for _, s := range a.live() {
		s.withdraw(name)
	}
}

// up brings a session up for a person: it permits one submission, for as long as the
// command waits that asked for it; without a waiter, as after a click, for its time.
func (a *Agent) up(ctx context.Context, req api.UpRequest, waiter string) (api.UpResponse, error) {
	if !a.waiters.waits(waiter) {
		return api.UpResponse{}, &api.Error{
			Code: api.CodeUsage, Message: "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out",
		}
	}
	s, err := a.session(req.Session)
	if err != nil {
		return api.UpResponse{}, err
	}
	if s.named() && !s.underWay() {
		if err := a.validConfig(); err != nil {
			return api.UpResponse{}, err
		}
	}
	s.reconfigure()
	if err := a.allowed(ctx, s.host()); err != nil {
		return api.UpResponse{}, err
	}
	if _, err := s.fixedSpecs(ctx); err != nil {
		return api.UpResponse{}, err // before a login that would be for nothing
	}
	if req.Job != "" {
		if err := s.choose(req.Job); err != nil {
			return api.UpResponse{}, err
		}
	}
	s.verify(ctx)
	now, at := s.startFor(byPerson, waiter, clientOf(ctx))
	if !a.waiters.waits(waiter) { // gone meanwhile
		s.withdraw(waiter)
	}
	return api.UpResponse{Session: now, At: at}, nil
}
