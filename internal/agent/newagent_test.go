package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// TestNewAgent has an agent that takes over from one that ended.
func TestNewAgent(t *testing.T) {
	onModel(t, "outlives the scheduler's silence", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.served()
		m.cluster.lie, m.cluster.lieEnds = modelLies[4], time.Now().Add(5*time.Minute)
		l.crash()
		m.sleep(time.Minute)
		if s := l.status(); s.State != api.SessionReconnecting || s.Job == nil || !strings.Contains(s.Cause, "scheduler does not respond") {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.sleep(10 * time.Minute)
		if s := l.status(); s.Cause != "waiting for job 101" {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
	})
	onModel(t, "knows the job of a session that is down", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.down(false)
		l.crash()
		for range 2 {
			s := l.status()
			if s.State != api.SessionDown || s.Job == nil || s.Job.ID != "101" || !strings.Contains(s.Cause, "job 101 was last seen running at ") || !strings.Contains(s.Hint, "--cancel") {
				m.t.Errorf("%s: %q, hint %q, job %+v", s.State, s.Cause, s.Hint, s.Job)
			}
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.SetPathValue("name", modelSession)
			if _, err := ofSession(l.agent.server, handleOpen)(r, api.None{}); err == nil { // it makes the session, which stays down
				m.t.Error("a session that is down has a page")
			}
		}
	})
	onModel(t, "that cannot connect knows the job", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.served()
		l.lose()
		l.crash()
		m.sleep(time.Minute)
		if s := l.status(); s.State != api.SessionReconnecting || !strings.Contains(s.Cause, "next try") || s.Job == nil || s.Job.ID != "101" {
			m.t.Errorf("%s: %q, job %+v", s.State, s.Cause, s.Job)
		}
		l.restore()
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Cause != "waiting for job 101" {
			m.t.Errorf("%s: %q, job %+v", s.State, s.Cause, s.Job)
		}
	})
	onModel(t, "knows why the session failed", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "is refused", refused: true, appears: -1}}
		l.mustUp()
		before := l.status()
		l.crash()
		after := l.status()
		if after.State != api.SessionFailed || after.State != before.State || after.Cause != before.Cause || after.Hint != before.Hint || after.Code != before.Code {
			m.t.Errorf("before %s: %q, after %s: %q", before.State, before.Cause, after.State, after.Cause)
		}
		l.mustUp()
		m.hasJobs(1)
	})
	onModel(t, "does not use a young job of another account", func(m *model, l *modelLaptop) {
		must(m.t, l.agent.Store.Update(modelSession, func(r *state.Session) {
			r.Submissions = state.Submissions{{Role: state.RoleJob, Host: "hpc", Account: "alice@elsewhere.example:22", Job: &api.Job{ID: "9999", State: api.JobQueued, Submitted: time.Now()}}}
		}))
		l.crash()
		must(m.t, l.request(api.UpRequest{}))
		if s := l.status(); s.Job == nil || s.Job.ID != "101" {
			m.t.Errorf("%s: %q; job %+v", s.State, s.Cause, s.Job)
		}
	})
}

// TestAnswer has answers of the scheduler that tell of the end of a job.
func TestAnswer(t *testing.T) {
	refresh := func(l *modelLaptop) error {
		_, err := l.agent.server.handleRefresh(context.Background(), api.RefreshRequest{Session: modelSession})
		return err
	}
	jobs := func(l *modelLaptop) error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetPathValue("host", "hpc")
		_, err := l.agent.server.handleJobs(r, nil)
		return err
	}
	onModel(t, "to a refresh tells of an end that just happened", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.served()
		for listed := len(m.cluster.lists); len(m.cluster.lists) == listed; {
			m.sleep(time.Second)
		}
		m.sleep(session.DefaultLimits().Jobs.QueryMin) // until then that answer is used again
		m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "FAILED", nil) })
		must(m.t, refresh(l))
		m.sleep(time.Second)
		if s := l.status(); s.State != api.SessionEnded || s.Job == nil || s.Job.State != api.JobFailed || !strings.Contains(s.Cause, "failed") {
			m.t.Errorf("%s: %q, job %+v", s.State, s.Cause, s.Job)
		}
	})
	for name, tt := range map[string]struct {
		ask       func(*modelLaptop) error
		restarted bool
	}{
		"to a refresh updates a session that is down":            {refresh, false},
		"to a list of jobs updates a session that is down":       {jobs, false},
		"to a list of jobs updates a session of an agent before": {jobs, true},
	} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			l.mustUp()
			l.down(false)
			if tt.restarted {
				l.crash()
				l.login()
			}
			if s := l.status(); s.Job == nil || !strings.Contains(s.Cause, "job 101 was last seen running at ") {
				m.t.Errorf("before: %q, %+v", s.Cause, s.Job)
			}
			m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil) }) // by another than tunctl
			for range 3 {                                                                // one answer may be wrong
				m.sleep(time.Minute)
				must(m.t, tt.ask(l))
			}
			if s := l.status(); s.Job != nil || s.Cause != "" {
				m.t.Errorf("after: %q, %+v", s.Cause, s.Job)
			}
			if runs, err := l.agent.History.Runs(); err != nil || len(runs) != 1 || runs[0].Job.ID != "101" || !runs[0].Job.State.Ended() {
				m.t.Errorf("the history has %+v, %v", runs, err)
			}
		})
	}
	onModelOf(t, "of a server without a history is enough", modelPBS{}, func(m *model, l *modelLaptop) {
		m.cluster.history = false
		l.mustUp()
		l.served()
		m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil) })
		m.sleep(5 * time.Minute)
		if s := l.status(); s.State != api.SessionEnded || !strings.Contains(s.Cause, "how it ended is not recorded") {
			m.t.Errorf("%s: %q", s.State, s.Cause)
		}
	})
}
