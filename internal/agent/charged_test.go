package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// interpose has answer answer the scripts of a laptop that it knows.
func (l *modelLaptop) interpose(answer func(script string) (out, errOut string, exit int, ok bool)) {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	run := l.host.scheduler
	l.host.scheduler = func(script string) (string, string, int) {
		if out, errOut, exit, ok := answer(script); ok {
			return out, errOut, exit
		}
		return run(script)
	}
}

// login connects a laptop to its host.
func (l *modelLaptop) login() {
	if _, err := l.agent.server.handleLogin(context.Background(), api.LoginRequest{Host: "hpc"}); err != nil {
		l.m.t.Error(err)
	}
	l.m.sleep(30 * time.Second)
}

func TestMissingJob(t *testing.T) {
	unknown := func(script string) (string, string, int, bool) {
		switch {
		case strings.Contains(script, "limit squeue"):
			return "", "", 0, true
		case modelShow.MatchString(script):
			return "", modelInvalid, 1, true
		}
		return "", "", 0, false
	}
	empty := func(script string) (string, string, int, bool) {
		return "", "", 0, strings.Contains(script, "limit squeue") || modelShow.MatchString(script) || strings.Contains(script, "limit sacct")
	}
	for name, tt := range map[string]struct {
		wrong func(string) (string, string, int, bool)
		after string        // what the user does then
		takes time.Duration // how long the answers are wrong
		gone  bool
	}{
		"runs after one wrong answer":                   {wrong: empty, takes: 50 * time.Second},
		"runs if the accounting says so":                {wrong: unknown, takes: 10 * time.Minute},
		"is found by the next up":                       {wrong: empty, after: "up", takes: 50 * time.Second},
		"is found by the next up, by the accounting":    {wrong: unknown, after: "up", takes: 10 * time.Minute},
		"is cancelled after one wrong answer":           {wrong: empty, after: "down --cancel", takes: 50 * time.Second, gone: true},
		"is replaced by the next up after two looks":    {wrong: empty, after: "up", takes: time.Hour, gone: true},
		"is over after two looks while nobody looks up": {wrong: empty, takes: time.Hour, gone: true},
	} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			t := m.t
			m.cluster.limit, m.misled = 10*time.Hour, tt.takes == time.Hour
			l.mustUp()
			m.sleep(5 * time.Minute)
			wrong := time.Now().Add(tt.takes)
			if tt.after != "" {
				l.down(false)
			}
			l.interpose(func(script string) (string, string, int, bool) {
				if time.Now().After(wrong) {
					return "", "", 0, false
				}
				return tt.wrong(script)
			})
			switch tt.after {
			case "up":
				l.up()
			case "down --cancel":
				l.down(true)
			}
			m.sleep(15 * time.Minute)
			first := m.cluster.jobs[0]
			s := l.status()
			if !tt.gone && (s.Job == nil || s.Job.ID != first.id || s.Job.State.Ended() || len(m.cluster.jobs) != 1) {
				t.Errorf("%d jobs; shown %s: %q, job %+v", len(m.cluster.jobs), s.State, s.Cause, s.Job)
			}
			if tt.gone && s.Job != nil && s.Job.ID == first.id && !s.Job.State.Ended() || tt.after == "up" && tt.gone != (len(m.cluster.jobs) == 2) {
				t.Errorf("%d jobs; shown %s: %q, job %+v", len(m.cluster.jobs), s.State, s.Cause, s.Job)
			}
			if tt.after == "down --cancel" && first.live(time.Now()) {
				t.Error("it still runs")
			}
			if tt.takes == time.Hour { // nobody can know of a job that the scheduler denies for an hour
				m.cluster.end(first, "COMPLETED", l)
			}
		})
	}
}

func TestSubmitCommandInterrupted(t *testing.T) {
	for name, how := range map[string]modelSubmit{
		"its job appears":  {name: "late", lost: true, answers: 2 * time.Minute, appears: 3 * time.Minute},
		"nothing appears":  {name: "never", lost: true, answers: 2 * time.Minute, appears: -1},
		"it was submitted": {name: "slow", answers: 10 * time.Second},
	} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			t := m.t
			m.cluster.limit = 10 * time.Hour
			m.cluster.checks = func(*modelTag) {}
			m.cluster.next = []modelSubmit{how}
			l.login()
			ctx, interrupt := context.WithTimeout(context.Background(), 5*time.Second)
			defer interrupt()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://tunctl/", nil)
			r.SetPathValue("host", "hpc")
			_, err := l.agent.server.handleSubmitJob(r, api.SubmitRequest{Script: "~/nb.sh"})
			if err == nil || ctx.Err() == nil {
				t.Errorf("it was not interrupted: %v", err)
			}
			shown := func() (s api.Session, ok bool) {
				for _, s := range l.agent.server.status().Sessions {
					if strings.HasPrefix(s.Name, "submit-") {
						return s, true
					}
				}
				return s, false
			}
			if s, ok := shown(); !ok || !s.Pending && s.Job == nil {
				t.Errorf("at once: %+v", s)
			}
			l.crash()
			l.login()
			m.sleep(15 * time.Minute)
			s, ok := shown()
			if how.appears < 0 {
				if ok {
					t.Errorf("a submission that became no job: %+v", s)
				}
				return
			}
			if !ok || s.Job == nil || s.Job.ID != m.cluster.jobs[0].id {
				t.Errorf("%+v", s)
			}
			m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil)
		})
	}
}

func TestAssistantUpInALoop(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		t := m.t
		m.job = "[mcp]\nnode_hours = 8\n"
		l.reload()
		reads := 0
		l.interpose(func(script string) (string, string, int, bool) {
			if !strings.Contains(script, "head -c") {
				return "", "", 0, false
			}
			reads++
			return "#!/bin/sh\n#SBATCH --time=9:00:00\n", "", 0, true
		})
		l.login()
		for range 50 {
			if _, err := l.agent.server.handleAssistantUp(context.Background(), api.AssistantRequest{Assistant: "clippy", Session: modelSession}); err == nil {
				t.Error("it was allowed")
			}
		}
		if reads != 1 {
			t.Errorf("the script was read %d times", reads)
		}
	})
}
