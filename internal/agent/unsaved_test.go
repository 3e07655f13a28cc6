package agent

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/home"
)

// breakState makes the state file unwritable until the returned function is called.
func (l *modelLaptop) breakState() (repair func()) {
	away := l.paths.State + ".away"
	if err := os.Rename(l.paths.State, away); err != nil {
		l.m.t.Fatal(err)
	}
	l.m.write(l.paths.State, "")
	return func() {
		if err := os.Remove(l.paths.State); err != nil {
			l.m.t.Fatal(err)
		}
		if err := os.Rename(away, l.paths.State); err != nil {
			l.m.t.Fatal(err)
		}
	}
}

func (l *modelLaptop) submissions() state.Submissions {
	return l.agent.Store.Session(modelSession).Submissions
}

func TestUnsavedSubmission(t *testing.T) {
	t.Run("leaves no record", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			repair := l.breakState()
			l.up()
			m.sleep(30 * time.Second)
			if s := l.status(); len(l.submissions()) > 0 || s.Pending || !strings.Contains(s.Cause, "nothing was submitted") {
				t.Errorf("%s %q, record %+v", s.State, s.Cause, l.submissions())
			}
			repair()
			if _, err := l.cancelWithin(30 * time.Minute); err != nil {
				t.Error(err)
			}
			l.mustUp()
			if s := l.status(); s.Job == nil || len(m.cluster.jobs) != 1 {
				t.Errorf("%s %q, %d jobs", s.State, s.Cause, len(m.cluster.jobs))
			}
		})
	})
	t.Run("keeps the time of an interrupted one", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.cluster.next = []modelSubmit{{name: "never begins", notBegun: true}}
			l.up()
			m.sleep(time.Second)
			l.down(false)
			repair := l.breakState()
			l.up()
			m.sleep(2 * time.Minute)
			repair()
			if list := l.submissions(); len(list) != 1 || list[0].When.IsZero() {
				t.Errorf("record %+v", list)
			}
		})
	})
}

func TestCancelWait(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		if err := l.agent.Store.Update(modelSession, func(r *state.Session) {
			r.Submissions = state.Submissions{{Tag: "nb-lost", Role: state.RoleJob, Host: "hpc"}}
		}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := l.cancelWithin(30 * time.Minute)
			ended <- err
		}()
		m.sleep(time.Minute)
		if s := l.status(); !strings.Contains(s.Cause, "waiting up to 10 min") {
			t.Errorf("while it waits: %q", s.Cause)
		}
		if err := <-ended; err != nil || len(l.submissions()) > 0 {
			t.Errorf("%v, record %+v", err, l.submissions())
		}
	})
}

func TestDoubtClock(t *testing.T) {
	paths := home.In(t.TempDir())
	a, err := New(Options{Paths: paths, Limits: session.DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := home.MakePrivate(paths.State); err != nil {
		t.Fatal(err)
	}
	sub := state.Submission{Tag: "t", Role: state.RoleJob, Host: "hpc"}
	if err := a.Store.Update("nb", func(r *state.Session) { r.Submissions = r.Submissions.Put(sub) }); err != nil {
		t.Fatal(err)
	}
	s, err := a.Sessions.Find("nb")
	if err != nil {
		t.Fatal(err)
	}
	s.Jobs.Lost(sub, errors.New("the connection is lost"))
	if when := s.Jobs.Current().When; !strings.Contains(when.String(), " m=") {
		t.Errorf("a clock that is set changes how long ago %s was", when)
	}
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "late", lost: true, appears: 8 * time.Minute}}
		l.mustUp()
		// An agent that is started after the clock was set forward has only the times of the file.
		if err := l.agent.Store.Update(modelSession, func(r *state.Session) {
			r.Submissions = r.Submissions.Change(r.Submissions[0], func(x *state.Submission) {
				x.When, x.Missed = x.When.Round(0).Add(-time.Hour), x.When.Round(0).Add(-time.Hour)
			})
		}); err != nil {
			t.Fatal(err)
		}
		l.crash()
		m.sleep(7 * time.Minute)
		if !l.status().Pending {
			t.Error("given up before its job can have appeared")
		}
		m.sleep(12 * time.Minute)
		if s := l.status(); s.Job == nil {
			t.Errorf("%s %q: its job is not known", s.State, s.Cause)
		}
	})
}
