package agent

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/home"
)

func (l *modelLaptop) submissions() state.Submissions {
	return l.agent.Store.Session(modelSession).Submissions
}

func TestUnsavedSubmission(t *testing.T) {
	onModel(t, "leaves no record", func(m *model, l *modelLaptop) {
		l.fillDisk()
		l.up()
		m.sleep(30 * time.Second)
		if s := l.status(); len(l.submissions()) > 0 || s.Pending || !strings.Contains(s.Cause, "nothing was submitted") {
			m.t.Errorf("%s %q, record %+v", s.State, s.Cause, l.submissions())
		}
		l.freeDisk()
		_, err := l.cancelWithin(30 * time.Minute)
		must(m.t, err)
		l.mustUp()
		if s := l.status(); s.Job == nil || len(m.cluster.jobs) != 1 {
			m.t.Errorf("%s %q, %d jobs", s.State, s.Cause, len(m.cluster.jobs))
		}
	})
	onModel(t, "keeps the time of an interrupted one", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "never begins", notBegun: true}}
		l.up()
		m.sleep(time.Second)
		l.down(false)
		l.fillDisk()
		l.up()
		m.sleep(2 * time.Minute)
		l.freeDisk()
		if list := l.submissions(); len(list) != 1 || list[0].When.IsZero() {
			m.t.Errorf("record %+v", list)
		}
	})
}

func TestDoubtClock(t *testing.T) {
	paths := home.In(t.TempDir())
	a, err := New(Options{Paths: paths, Limits: session.DefaultLimits(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, home.MakePrivate(paths.State))
	sub := state.Submission{Tag: "t", Role: state.RoleJob, Host: "hpc"}
	must(t, a.Store.Update("nb", func(r *state.Session) { r.Submissions = r.Submissions.Put(sub) }))
	s, err := a.Sessions.Find("nb")
	must(t, err)
	s.Jobs.Lost(sub, errors.New("the connection is lost"))
	if when := s.Jobs.Current().When; !strings.Contains(when.String(), " m=") {
		t.Errorf("a clock that is set changes how long ago %s was", when)
	}
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "late", lost: true, appears: 8 * time.Minute}}
		l.mustUp()
		// An agent that is started after the clock was set forward has only the times of the file.
		must(t, l.agent.Store.Update(modelSession, func(r *state.Session) {
			r.Submissions = r.Submissions.Change(r.Submissions[0], func(x *state.Submission) {
				x.When, x.Missed = x.When.Round(0).Add(-time.Hour), x.When.Round(0).Add(-time.Hour)
			})
		}))
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
