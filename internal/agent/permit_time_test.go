package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

func TestAPermissionLastsAnHourByTheClockOnTheWall(t *testing.T) {
	s := newSession(&shared{limits: DefaultLimits(), store: &state.Store{}}, configs.Session{Name: "jupyter", Submit: "~/jupyter.sh"})
	r := &attempt{session: s, done: make(chan struct{})}
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
	s := newSession(&shared{limits: DefaultLimits(), store: &state.Store{}}, configs.Session{Name: "narval-7"})
	s.origin = attached
	r := &attempt{session: s, done: make(chan struct{})}
	defer close(r.done)
	r.grantLocked("")
	if s.facts.Permit.Live(time.Now()) {
		t.Error("a job may be submitted")
	}
}

// permittedSession is a session with a try under way whose permission ends by itself, until
// the test is over.
func permittedSession(t *testing.T) (*session, *attempt) {
	t.Helper()
	s := quietSession(t)
	r := &attempt{session: s, done: make(chan struct{})}
	s.attempt, s.facts.Answers = r, false
	t.Cleanup(func() { close(r.done); s.agent.work.Wait() })
	return s, r
}

func (s *session) grant(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt.grantLocked(waiter)
}

func TestACommandThatWaitsTooLongPermitsNothingUntilItAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := permittedSession(t)
		s.grant("patient")
		time.Sleep(59 * time.Minute)
		if !s.permitted() || s.requestedBy() != byPerson {
			t.Error("the permission ended before its time")
		}
		time.Sleep(2 * time.Minute)
		if s.permitted() || s.requestedBy() != byAgent || s.status().MaySubmit {
			t.Error("a job may be submitted after an hour")
		}
		s.grant("patient")
		if !s.permitted() {
			t.Error("nothing may be submitted although it was asked for again")
		}
	})
}

func TestTheEndOfAPermissionSaysNothingOfTheNextTry(t *testing.T) {
	s := quietSession(t)
	old := &attempt{session: s}
	s.attempt = &attempt{session: s}
	s.facts.Permit.Grant("", time.Hour)
	old.lapseLocked()
	if !s.permitted() {
		t.Error("the session is without permission")
	}
}

func TestNothingIsSubmittedOnceThePermissionIsWithdrawn(t *testing.T) {
	s := quietSession(t)
	s.attempt = &attempt{session: s}
	_, err := (&jobFinder{session: s, jobs: jobwatch.NewWatcher(nil, jobwatch.Options{Scheduler: "slurm"})}).submit(t.Context()) // which has nobody to submit to
	if e, ok := asAPI(err); !ok || e.Code != api.CodeJobEnded {
		t.Errorf("err = %v", err)
	}
}

func TestNobodyIsPromisedAJobThatASessionCannotSubmit(t *testing.T) {
	s := quietSession(t)
	s.cfg.Submit, s.cfg.Job = "", "lab"
	if s.wouldSubmitLocked() {
		t.Error("a permission is said to be over for which there is no use")
	}
	for name, rec := range map[string]state.Submission{"no job": {}, "a job that is gone": {Job: &api.Job{ID: "7"}}, "a job elsewhere": {Job: &api.Job{ID: "7"}, Account: "a@b"}} {
		e, ok := asAPI((&jobFinder{session: s, account: "a@c"}).noJobError(rec))
		if !ok || strings.Contains(e.Hint, "tunctl up") || !strings.Contains(e.Hint, "start the job there") {
			t.Errorf("%s: %v, hint %q", name, e, e.Hint)
		}
	}
}
