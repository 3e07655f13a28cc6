package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
)

// restart ends the agent, changes its state file and the copy, and starts another.
func (l *modelLaptop) restart(file, copied string) {
	l.m.t.Helper()
	l.stop()
	l.endPermit()
	l.commands = nil
	l.m.write(l.paths.StateFile(), file)
	l.m.write(l.paths.StateFile()+".bak", copied)
	l.start()
	l.m.sleep(time.Minute)
}

// TestAnotherComputer has the same cluster and config as the model's laptop, and no record.
func TestAnotherComputer(t *testing.T) {
	for name, ends := range map[string]bool{"opens the job that runs": false, "submits when it has ended": true} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			l.mustUp()
			for _, tag := range m.cluster.tags {
				tag.computer = "laptop-a"
			}
			if ends {
				m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil) })
			}
			l.restart("", "")
			l.mustUp()
			s, want := l.status(), 1
			if ends {
				want = 2
			}
			if len(m.cluster.jobs) != want || s.Job == nil || s.Job.ID != m.cluster.jobs[want-1].id {
				m.t.Errorf("%s %q, %d jobs", s.State, s.Cause, len(m.cluster.jobs))
			}
		})
	}
}

func TestRecovery(t *testing.T) {
	const damaged = `{"version":2,"sess`
	for name, test := range map[string]func(m *model, l *modelLaptop){
		"from the copy": func(m *model, l *modelLaptop) {
			good, err := os.ReadFile(l.paths.StateFile())
			must(m.t, err)
			l.restart(damaged, string(good))
			if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[0].id {
				m.t.Errorf("%s %q", s.State, s.Cause)
			}
		},
		"by up": func(m *model, l *modelLaptop) {
			l.restart(damaged, damaged)
			l.mustUp()
			if s := l.status(); s.Job == nil || len(m.cluster.jobs) != 1 {
				m.t.Errorf("%s %q, %d jobs", s.State, s.Cause, len(m.cluster.jobs))
			}
		},
		"by down --cancel": func(m *model, l *modelLaptop) {
			l.restart(damaged, damaged)
			if _, err := l.cancelWithin(30 * time.Minute); err != nil || m.cluster.jobs[0].live(time.Now()) {
				m.t.Errorf("%v, the job runs: %v", err, m.cluster.jobs[0].live(time.Now()))
			}
		},
		"by a login, of a session that is not in the config": func(m *model, l *modelLaptop) {
			l.section = false
			l.writeConfig()
			l.restart(damaged, damaged)
			l.agent.Hosts.Pool.Host("hpc").UpFor("")
			m.sleep(time.Minute)
			if s := l.status(); s.Job == nil || s.State != api.SessionDown || l.agent.Store.Incomplete("hpc") {
				m.t.Errorf("%s %q", s.State, s.Cause)
			}
		},
		"not of another computer": func(m *model, l *modelLaptop) {
			for _, tag := range m.cluster.tags {
				tag.computer = submit.Computer() + "2"
			}
			l.restart(damaged, damaged)
			if _, err := l.cancelWithin(30 * time.Minute); err != nil || !m.cluster.jobs[0].live(time.Now()) {
				m.t.Errorf("%v, the job runs: %v", err, m.cluster.jobs[0].live(time.Now()))
			}
			m.cluster.jobs = nil // no laptop of the model shows it
		},
		"of version 1": func(m *model, l *modelLaptop) {
			sub, job := l.submissions()[0], m.cluster.jobs[0]
			l.restart(fmt.Sprintf(`{"version":1,"sessions":{"nb":{"tag":%q,"job":{"id":%q,"state":"running"},"account":%q}}}`, sub.Tag, job.id, sub.Account), "")
			if s := l.status(); s.Job == nil || s.Job.ID != job.id {
				m.t.Errorf("%s %q", s.State, s.Cause)
			}
			if _, err := l.cancelWithin(30 * time.Minute); err != nil || job.live(time.Now()) {
				m.t.Errorf("%v, the job runs: %v", err, job.live(time.Now()))
			}
		},
	} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			l.mustUp()
			if s := l.status(); s.Job == nil {
				m.t.Fatal(strings.Join(m.log, "\n"))
			}
			m.job = "" // by its name it would be found anyway
			l.writeConfig()
			test(m, l)
		})
	}
}

func TestLastSeen(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		seen := func(when string) {
			t.Helper()
			if s := l.status(); s.Job == nil || time.Since(s.Job.Seen) > 90*time.Second {
				t.Errorf("%s, %q: the job is %+v", when, s.Cause, s.Job)
			}
		}
		l.mustUp()
		m.sleep(15*time.Minute - 30*time.Second)
		l.down(false)
		seen("after down")
		l.upOf(modelArray)
		for range 4 {
			m.sleep(3 * time.Minute)
			seen("while another session is up")
		}
		l.downOf(modelArray, true)
	})
}
