package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

func TestKeep(t *testing.T) {
	onModel(t, "submits nothing without a written tag", func(m *model, l *modelLaptop) {
		t := m.t
		l.upWithKeep()
		l.fillDisk()
		m.sleep(time.Until(m.cluster.jobs[0].start.Add(48 * time.Minute)))
		m.hasJobs(1)
		l.freeDisk()
		m.sleep(2 * time.Minute)
		raw, err := os.ReadFile(l.paths.StateFile())
		if n := len(m.cluster.jobs); n != 2 || err != nil || !strings.Contains(string(raw), m.cluster.jobs[1].tag.tag) {
			t.Errorf("%d jobs once there is room; %v, %s", n, err, raw)
		}
	})
	onModelOf(t, "submits once the server is back", modelPBS{}, func(m *model, l *modelLaptop) {
		t := m.t
		l.upWithKeep()
		back := m.cluster.jobs[0].start.Add(50 * time.Minute)
		l.interpose(func(script string) (string, string, int, bool) {
			return "", "Connection refused\nqsub: cannot connect to server pbs (errno=15010)", 12, time.Now().Before(back) && strings.Contains(script, "tunctl_dir=$tunctl_root/")
		})
		m.sleep(time.Until(back))
		m.hasJobs(1)
		m.sleep(3 * time.Minute)
		if s := l.status(); len(m.cluster.jobs) != 2 || s.Next == nil {
			t.Errorf("%d jobs, next %+v", len(m.cluster.jobs), s.Next)
		}
	})
	onModel(t, "stops at its limit for a day", func(m *model, l *modelLaptop) {
		l.upWithKeep()
		m.sleep(14 * time.Hour)
		m.hasJobs(1 + session.DefaultLimits().KeepPerDay)
		if s := l.status(); s.State != api.SessionFailed { // the last job has not served
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		runs, err := l.agent.History.Runs()
		if err != nil || len(runs) != len(m.cluster.jobs) || runs[0].Job.ID != m.cluster.jobs[0].id || runs[0].Job.State != api.JobTimeout {
			m.t.Errorf("history: %+v, %v", runs, err)
		}
	})
	onModel(t, "submits the next job once, also after a crash", func(m *model, l *modelLaptop) {
		next := l.upWithNext()
		l.crash()
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Cause != "waiting for job 101" || s.Next == nil || s.Next.ID != next.ID {
			m.t.Errorf("%s: %s; next was %s, is %+v", s.State, s.Cause, next.ID, s.Next)
		}
		m.hasJobs(2)
		l.down(true)
	})
	onModel(t, "says once that the next job is refused", func(m *model, l *modelLaptop) {
		l.upWithKeep()
		l.served()
		m.cluster.next = slices.Repeat([]modelSubmit{{name: "is refused", refused: true, appears: -1}}, 30)
		told := l.hears()
		m.sleep(65 * time.Minute)
		said := slices.DeleteFunc(told(), func(text string) bool { return !strings.Contains(text, "accounting/QOS policy") })
		if s := l.status(); len(said) != 1 || s.State != api.SessionEnded {
			m.t.Errorf("%s: %s; said %q", s.State, s.Cause, said)
		}
		m.hasJobs(1)
	})
	onModel(t, "submits one job for two laptops", func(m *model, l *modelLaptop) {
		m.job = "job = \"nb\"\n"
		other := m.addLaptop()
		l.upWithKeep()
		other.upWithKeep()
		m.cluster.queue = 5 * time.Hour
		m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
		m.hasJobs(2)
		next := m.cluster.jobs[1]
		for _, l := range []*modelLaptop{l, other} {
			if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[0].id || s.Next == nil || s.Next.ID != next.id {
				m.t.Errorf("%s has job %+v and next %+v", l.name, s.Job, s.Next)
			}
		}
		m.cluster.set(func() { next.start = m.cluster.jobs[0].end() })
		m.sleep(20 * time.Minute)
		for _, l := range []*modelLaptop{l, other} {
			if s := l.status(); s.Cause != "waiting for job "+next.id {
				m.t.Errorf("%s is %s: %s", l.name, s.State, s.Cause)
			}
		}
		m.hasJobs(2)
	})
	onModel(t, "uses a next job whose answer was lost", func(m *model, l *modelLaptop) {
		l.upWithKeep()
		m.cluster.next = []modelSubmit{{name: "loses its answer", cut: true}}
		m.sleep(time.Until(m.cluster.jobs[0].start.Add(45*time.Minute + 10*time.Second))) // a quarter of an hour before its end
		if len(m.cluster.jobs) != 2 || l.status().Next != nil {
			m.t.Fatalf("%d jobs, next %+v", len(m.cluster.jobs), l.status().Next)
		}
		m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil)
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[1].id {
			m.t.Errorf("%s: %s; job %+v, next %+v", s.State, s.Cause, s.Job, s.Next)
		}
	})
	t.Run("cancels the next job of one that was", func(t *testing.T) {
		for name, act := range map[string]func(*modelLaptop){"cancelled": (*modelLaptop).cancel, "extended": (*modelLaptop).extend} {
			onModel(t, name, func(m *model, l *modelLaptop) {
				l.upWithNext()
				act(l)
				m.sleep(2 * time.Minute)
				if s := l.status(); m.cluster.jobs[1].live(time.Now()) || s.Next != nil {
					m.t.Errorf("%s: next %+v\n%s", s.State, s.Next, strings.Join(m.log, "\n"))
				}
			})
		}
	})
	t.Run("cancels the next job of one that ended without use while the agent was off", func(t *testing.T) {
		for name, tt := range map[string]struct {
			away    time.Duration
			history bool
		}{
			"and is listed":            {time.Minute, true},
			"and is in the accounting": {10 * time.Minute, true},
			"and is known to nobody":   {10 * time.Minute, false},
		} {
			onModel(t, name, func(m *model, l *modelLaptop) {
				l.upWithNext()
				m.cluster.history = tt.history
				l.stop()
				m.cluster.set(func() { m.cluster.jobs[0].node = "cn01" }) // it has a log
				path := m.cluster.jobs[0].log()
				store, err := state.Open(l.paths.StateFile())
				must(m.t, err)
				must(m.t, store.Update(modelSession, func(r *state.Session) {
					r.Submissions = r.Submissions.Change(r.Current(), func(x *state.Submission) {
						job := *x.Job
						job.Log, x.Job = path, &job
					})
				}))
				m.cluster.end(m.cluster.jobs[0], "COMPLETED", nil)
				l.interpose(func(script string) (string, string, int, bool) {
					read := simRead.FindStringSubmatch(script)
					if read == nil || strings.Trim(read[1], "'") != path {
						return "", "", 0, false
					}
					text := "tunctl: the job ended after 120 minutes without use (end_idle)\n"
					return fmt.Sprintf("\n%s.%s 0 %d %s\n%s\n%[1]s end\n", read[2], read[3], len(text), path, text), "", 0, true
				})
				m.sleep(tt.away)
				l.start()
				m.sleep(5 * time.Minute)
				if s := l.status(); m.cluster.jobs[1].live(time.Now()) || s.Next != nil || !strings.Contains(s.Cause, "ended automatically after 120 minutes without use") {
					m.t.Errorf("%s: %s, next %+v\n%s", s.State, s.Cause, s.Next, strings.Join(m.log, "\n"))
				}
			})
		}
	})
	onModel(t, "submits nothing after a job that was just cancelled", func(m *model, l *modelLaptop) {
		l.upWithKeep()
		m.cluster.slowEnd = 5 * time.Minute // the scheduler shows it as running for a while
		due := ledger.KeepAt(*l.status().Job, session.DefaultLimits().KeepLead)
		m.sleep(time.Until(due.Add(-10 * time.Second)))
		l.cancel()
		m.sleep(2 * time.Minute)
		m.hasJobs(1)
	})
}

func TestExtension(t *testing.T) {
	extend := func(l *modelLaptop) (api.JobResponse, error) {
		return l.agent.server.handleExtend(context.Background(), api.ExtendRequest{Session: modelSession, Seconds: 3600})
	}
	onModel(t, "is shown at once", func(m *model, l *modelLaptop) {
		l.mustUp()
		before := l.status().Job.End
		res, err := extend(l)
		must(m.t, err)
		if now := l.status().Job.End; res.Job.End.Sub(before) != time.Hour || !now.Equal(res.Job.End) {
			m.t.Errorf("the end was %v, and is %v; shown is %v", before, res.Job.End, now)
		}
	})
	onModel(t, "is refused in the scheduler's words", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.interpose(func(script string) (string, string, int, bool) {
			return "", "Access/permission denied for job 101", 1, modelUpdate.MatchString(script)
		})
		if _, err := extend(l); err == nil || !strings.Contains(err.Error(), "Access/permission denied") {
			m.t.Errorf("err = %v", err)
		}
	})
	onModel(t, "is not of another job with the number", func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.end(m.cluster.jobs[0], "FAILED", nil)
		other := &modelJob{id: m.cluster.jobs[0].id, name: "production", script: "/home/alice/production.sh", submitted: time.Now(), start: time.Now(), limit: 100 * time.Hour}
		m.cluster.jobs = append(m.cluster.jobs, other)
		if _, err := l.agent.server.handleExtend(context.Background(), api.ExtendRequest{Session: modelSession, Seconds: 3600}); err == nil || !other.extended.IsZero() {
			m.t.Errorf("%v, extended %v", err, other.extended)
		}
	})
}
