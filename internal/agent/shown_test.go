package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// leaveBehind has the session's job 102 run, and 101, whose submission gave no answer.
func (l *modelLaptop) leaveBehind() {
	l.m.t.Helper()
	l.m.cluster.limit = 10 * time.Hour
	l.m.cluster.next = []modelSubmit{{name: "late", lost: true, appears: time.Minute}}
	l.mustUp()
	l.mustUp()
	l.m.sleep(10 * time.Minute)
	if s := l.status(); s.LiveText() != "job 102 and job 101" {
		l.m.t.Fatalf("%s: it has %s", s.State, s.LiveText())
	}
}

func (l *modelLaptop) cancelWithin(patience time.Duration) (api.DownResponse, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	defer l.endPermit()
	return l.agent.server.handleDown(ctx, api.DownRequest{Session: modelSession, Cancel: true})
}

// moveAccount has the submissions made from another account.
func (l *modelLaptop) moveAccount() {
	l.m.t.Helper()
	err := l.agent.Store.Update(modelSession, func(r *state.Session) {
		for i := range r.Submissions {
			r.Submissions = r.Submissions.Change(r.Submissions[i], func(x *state.Submission) { x.Account = "alice@old" })
		}
	})
	must(l.m.t, err)
}

func TestDownCancel(t *testing.T) {
	for name, test := range map[string]func(m *model, l *modelLaptop){
		"names all jobs that it ended": func(m *model, l *modelLaptop) {
			l.leaveBehind()
			res, err := l.cancelWithin(15 * time.Minute)
			must(m.t, err)
			s := res.Sessions[0]
			if s.Job == nil || s.Job.State != api.JobCancelled || s.Job.End.After(time.Now()) || len(s.Others) != 1 || s.Others[0].State != api.JobCancelled || s.Job.ID == s.Others[0].ID || s.LiveText() != "" {
				m.t.Errorf("job %+v, others %+v", s.Job, s.Others)
			}
		},
		"names all jobs that it could not end, and ends them later without a login": func(m *model, l *modelLaptop) {
			l.leaveBehind()
			l.host.unreachable(errNoNetwork)
			m.sleep(5 * time.Minute)
			_, err := l.cancelWithin(time.Minute)
			if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Message, "job 102 and job 101 were not ended yet") || !strings.Contains(e.Hint, "tunctl jobs hpc") {
				m.t.Errorf("%v, hint %q", err, api.HintOf(err))
			}
			l.crash()
			l.restore()
			m.sleep(20 * time.Minute)
			for _, j := range m.cluster.jobs {
				if j.live(time.Now()) {
					m.t.Errorf("job %s still runs", j.id)
				}
			}
		},
		"ends a job by its tag after the host got another address": func(m *model, l *modelLaptop) {
			l.mustUp()
			l.down(false)
			l.moveAccount()
			if _, err := l.cancelWithin(5 * time.Minute); err != nil || m.cluster.jobs[0].live(time.Now()) {
				m.t.Errorf("%v; the job runs: %v", err, m.cluster.jobs[0].live(time.Now()))
			}
		},
		"says that the job is not on the account of the host": func(m *model, l *modelLaptop) {
			l.mustUp()
			l.down(false)
			l.moveAccount()
			job, others := m.cluster.jobs[0], m.cluster.jobs[1:]
			m.cluster.jobs = others // the host leads to another cluster
			_, err := l.cancelWithin(5 * time.Minute)
			const want = "job 101 was started as alice@old, and hpc is now alice@hpc:22, where it is not found"
			m.sleep(time.Minute)
			for text, hint := range map[string]string{err.Error(): api.HintOf(err), l.status().Cause: l.status().Hint} {
				if !strings.Contains(text, want) || !strings.Contains(hint, "`tunctl cancel hpc 101` ends it") {
					m.t.Errorf("%q, hint %q", text, hint)
				}
			}
			m.cluster.jobs = []*modelJob{job}
		},
		"waits ten minutes for a job that may appear on another account": func(m *model, l *modelLaptop) {
			m.cluster.next = []modelSubmit{{name: "never", lost: true, appears: -1}}
			l.mustUp()
			l.down(false)
			l.moveAccount()
			told := l.hears()
			m.sleep(8 * time.Minute)
			if !l.status().Pending {
				m.t.Error("given up too early")
			}
			m.sleep(10 * time.Minute)
			if l.status().Pending {
				m.t.Error("not given up")
			}
			said := strings.Join(told(), "\n")
			if !strings.Contains(said, "the address of hpc was edited from alice@old to alice@hpc:22") || !strings.Contains(said, "`tunctl jobs hpc --all`") {
				m.t.Errorf("said: %s", said)
			}
		},
		"ends an up that began before it": func(m *model, l *modelLaptop) {
			s, err := l.agent.Sessions.Find(modelSession)
			must(m.t, err)
			began := s.Downs()
			l.down(true)
			_, err = l.agent.Sessions.UpSince(context.Background(), s, began, api.UpRequest{Session: modelSession})
			m.sleep(5 * time.Minute)
			if err == nil || len(m.cluster.jobs) > 0 || l.status().State != api.SessionDown {
				m.t.Errorf("%v; %d jobs; %s", err, len(m.cluster.jobs), l.status().State)
			}
			l.mustUp()
			if len(m.cluster.jobs) != 1 {
				m.t.Errorf("%d jobs after the next up", len(m.cluster.jobs))
			}
		},
		"of an assistant is asked for, also for jobs of earlier submissions": func(m *model, l *modelLaptop) {
			l.leaveBehind()
			for _, j := range m.cluster.jobs {
				if j.id == l.status().Job.ID {
					m.cluster.end(j, "COMPLETED", nil)
				}
			}
			m.sleep(2 * time.Minute)
			l.down(false)
			m.sleep(time.Minute)
			if s := l.status(); s.Job != nil || len(s.Others) != 1 {
				m.t.Fatalf("job %+v, others %+v", s.Job, s.Others)
			}
			_, err := l.agent.server.handleAssistantDown(context.Background(), api.AssistantRequest{Assistant: "clippy", Session: modelSession, Cancel: true})
			m.sleep(2 * time.Minute)
			for _, j := range m.cluster.jobs {
				if err == nil || j.endedBy != nil {
					m.t.Errorf("%v; job %s was ended: %v", err, j.id, j.endedBy != nil)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) { withModel(t, test) })
	}
}

func TestJob(t *testing.T) {
	onModel(t, "is shown while an up connects to its host", func(m *model, l *modelLaptop) {
		m.cluster.limit = 10 * time.Hour
		l.mustUp()
		l.down(false)
		l.host.unreachable(errNoNetwork)
		l.agent.Hosts.Pool.Host("hpc").Down()
		m.sleep(time.Minute)
		l.up()
		if s := l.status(); s.State != api.SessionConnecting || s.LiveText() != "job 101" {
			m.t.Errorf("%s: it has %q", s.State, s.LiveText())
		}
		l.restore()
	})
}
