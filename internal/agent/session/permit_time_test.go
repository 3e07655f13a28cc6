package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

func TestAPermissionLastsAnHourByTheClockOnTheWall(t *testing.T) {
	s := newSession(bareShared(), configs.Session{Name: "jupyter", Submit: "~/jupyter.sh"}, fromConfig)
	r := &attempt{Session: s, done: make(chan struct{})}
	defer close(r.done)
	if s.facts.Permit.Live(time.Now()) {
		t.Error("nobody permitted anything")
	}
	before := time.Now()
	r.grantLocked("")
	end := s.facts.Permit.End()
	if d := end.Sub(before.Round(0)); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("it lasts %v", d)
	}
	// Timers and monotonic times stand still while a laptop sleeps.
	if end != end.Round(0) {
		t.Errorf("%v is not of the wall clock", end)
	}
	if !s.facts.Permit.Live(end.Add(-time.Second)) || s.facts.Permit.Live(end) {
		t.Error("it does not end when its time is over")
	}
}

func TestWhatWasStartedByHandIsNeverPermittedToBeSubmitted(t *testing.T) {
	s := newSession(bareShared(), configs.Session{Name: "narval-7"}, attached)
	r := &attempt{Session: s, done: make(chan struct{})}
	defer close(r.done)
	r.grantLocked("")
	if s.facts.Permit.Live(time.Now()) {
		t.Error("a job may be submitted")
	}
}

// permittedSession is a session with a try under way whose permission ends by itself, until
// the test is over.
func permittedSession(t *testing.T) (*Session, *attempt) {
	t.Helper()
	s := quietSession(t)
	r := &attempt{Session: s, done: make(chan struct{})}
	s.attempt, s.facts.Answers = r, false
	t.Cleanup(func() { close(r.done); s.parts.Work.Wait() })
	return s, r
}

func (s *Session) grant(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt.grantLocked(waiter)
}

func TestACommandThatWaitsTooLongPermitsNothingUntilItAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := permittedSession(t)
		s.grant("patient")
		time.Sleep(59 * time.Minute)
		if !permitted(s) || !s.attempt.isByPerson() {
			t.Error("the permission ended before its time")
		}
		time.Sleep(2 * time.Minute)
		if permitted(s) || s.attempt.isByPerson() || s.Status().MaySubmit {
			t.Error("a job may be submitted after an hour")
		}
		s.grant("patient")
		if !permitted(s) {
			t.Error("nothing may be submitted although it was asked for again")
		}
	})
}

func TestTheEndOfAPermissionSaysNothingOfTheNextTry(t *testing.T) {
	s := quietSession(t)
	old := &attempt{Session: s}
	s.attempt = &attempt{Session: s}
	s.facts.Permit.Grant("", time.Hour)
	old.lapseLocked()
	if !permitted(s) {
		t.Error("the session is without permission")
	}
}

func TestPermitOfTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := permittedSession(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s.parts.Ctx, s.cfg.App, r.host = ctx, configs.ShellApp, s.parts.Hosts.Pool.Host("narval") // it listens nowhere
		s.grant("patient")
		r.host.Want() // which nobody dials
		r.finish(api.Errorf(api.CodeJobEnded, "it has just ended"))
		if s.attempt == r || !s.InProgress() || !permitted(s) {
			t.Fatalf("another attempt: %v, permitted %v", s.attempt != r, permitted(s))
		}
		time.Sleep(DefaultLimits().Permit + time.Minute)
		synctest.Wait()
		if permitted(s) || s.attempt.isByPerson() || s.Status().MaySubmit {
			t.Error("the permission has not ended")
		}
		if !s.InProgress() {
			t.Errorf("its attempt has ended: %+v", s.Saved().Failure)
		}
	})
}

// permitted reports whether the session's job may be submitted.
func permitted(s *Session) bool {
	known := s.Facts()
	return known.Permit.Live(time.Now())
}

// bareShared is an agent without parts.
func bareShared() *Parts {
	a := &Parts{Limits: DefaultLimits(), Store: &state.Store{}}
	NewRegistry(a)
	return a
}
