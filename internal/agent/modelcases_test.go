package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// withModel runs a test on one laptop of a model, whose cluster is Slurm without skew.
func withModel(t *testing.T, test func(m *model, l *modelLaptop)) {
	t.Helper()
	withModelOf(t, modelSlurm{}, test)
}

func withModelOf(t *testing.T, dialect modelDialect, test func(m *model, l *modelLaptop)) {
	t.Setenv("PATH", t.TempDir())
	keyFile, key := sshtest.NewKeyFile(t)
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1, dialect, keyFile, key)
		m.cluster.skew, m.cluster.limit, m.cluster.history, m.job = 0, time.Hour, true, ""
		for _, l := range m.laptops {
			l.keep, l.kept = false, false
			l.writeConfig()
			l.agent.Reload()
		}
		test(m, m.laptops[0])
		m.finish()
		if m.failed {
			t.Error(strings.Join(m.log, "\n"))
		}
	})
}

func (l *modelLaptop) mustUp() {
	l.m.t.Helper()
	l.up()
	l.m.sync()
	if l.granted.IsZero() {
		l.m.t.Fatal(strings.Join(l.m.log, "\n"))
	}
	l.m.sleep(30 * time.Second)
}

func TestAnUpDoesNotWaitForASlowCancel(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		first := m.cluster.jobs[0]
		m.cluster.setSlowCancel(20 * time.Second)
		ended := make(chan error)
		go func() {
			_, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true})
			ended <- err
		}()
		m.sleep(2 * time.Second)
		began := time.Now()
		l.up()
		if took := time.Since(began); took > time.Second {
			m.t.Errorf("the up took %s", took)
		}
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
		m.sleep(time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID == first.id || first.live(time.Now()) {
			m.t.Errorf("the first job is live: %v; the session has %+v", first.live(time.Now()), s.Job)
		}
	})
}

func TestAnUpAsksTheSchedulerAtOnce(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.sleep(5 * time.Minute)
		listed := len(m.cluster.lists)
		l.up()
		m.sleep(session.DefaultLimits().Jobs.QueryMin)
		if len(m.cluster.lists) == listed {
			m.t.Error("no query of the scheduler")
		}
		if l.status().MaySubmit {
			m.t.Error("the answer, which changed nothing, has not settled the permission")
		}
	})
}

func TestAJobThatIsFoundSettlesThePermission(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		l.mustUp()
		l.down(false)
		l.up()
		m.sleep(time.Second)
		if s := l.status(); s.Job == nil || s.MaySubmit {
			m.t.Errorf("job %+v, may submit %v", s.Job, s.MaySubmit)
		}
		m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil)
		m.sleep(time.Minute)
		if len(m.cluster.jobs) != 1 {
			m.t.Error("the job that was cancelled came back")
		}
	})
}

func TestASessionWithSeveralJobsToChooseFromHasNone(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.job = "job = \"nb\"\n"
		l.writeConfig()
		l.agent.Reload()
		for _, id := range []string{"7", "8"} {
			m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: id, name: "nb", script: "/home/alice/nb.sh", submitted: time.Now(), start: time.Now(), limit: time.Hour})
		}
		l.mustUp()
		if s := l.status(); len(s.Candidates) != 2 || s.Job != nil || len(l.agent.Store.Session(modelSession).Submissions) != 0 {
			m.t.Errorf("%s: candidates %+v, job %+v, submissions %+v", s.State, s.Candidates, s.Job, l.agent.Store.Session(modelSession).Submissions)
		}
	})
}

func TestACancelThatCannotBeMadeIsMadeLater(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		l.host.unreachable(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)})
		m.sleep(5 * time.Minute)
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		_, err := l.agent.server.handleDown(ctx, api.DownRequest{Session: modelSession, Cancel: true})
		if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Message, "job 101 was not ended yet") || !strings.Contains(e.Hint, "tunctl jobs hpc") {
			m.t.Errorf("err = %v", err)
		}
		l.endPermit()
		l.crash()
		l.restore()
		if _, err := l.agent.server.handleLogin(context.Background(), api.LoginRequest{Host: "hpc"}); err != nil {
			m.t.Error(err)
		}
		m.sleep(2 * time.Minute)
		if m.cluster.jobs[0].live(time.Now()) || l.status().Job != nil {
			m.t.Errorf("the job was not ended: %+v", l.status())
		}
	})
}

func TestACancelledJobIsLookedAfterUntilItHasEnded(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.slowEnd = 90 * time.Second // the down may wait a minute for its turn to ask the scheduler
		if _, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true}); err != nil {
			m.t.Fatal(err)
		}
		l.endPermit()
		if s := l.status(); s.Cause != "job 101 is about to end" {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.sleep(3 * time.Minute)
		if s := l.status(); s.Job != nil {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
	})
}

func TestASuccessorWhoseAnswerWasLostIsNotOrphaned(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.keep = true
		l.writeConfig()
		l.agent.Reload()
		l.mustUp()
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
}

func TestASubmissionInDoubtIsFoundBelowNewerJobs(t *testing.T) {
	withModelOf(t, modelPBS{}, func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		m.cluster.next = []modelSubmit{{name: "times out, and the job comes later", lost: true, appears: 90 * time.Second}}
		l.mustUp()
		for i := range 5 {
			m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: fmt.Sprintf("%d.pbs01", 900+i), name: "production", script: "/home/alice/production.sh", submitted: time.Now().Add(time.Minute), start: time.Now(), limit: 100 * time.Hour})
		}
		m.sleep(20 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.jobs[0].id {
			m.t.Errorf("%s: %s; job %+v, pending %v", s.State, s.Cause, s.Job, s.Pending)
		}
	})
}

func TestAnotherLaptopsJobOfTheSameNameSettlesNoSubmissionInDoubt(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.job = "job = \"nb\"\n"
		l.writeConfig()
		l.agent.Reload()
		m.cluster.next = []modelSubmit{{name: "times out, and the job comes later", lost: true, appears: 5 * time.Minute}}
		l.mustUp()
		m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: "50", name: "nb", script: "/home/alice/.tunctl/nb-other/nb.sh", submitted: time.Now(), start: time.Now(), limit: 100 * time.Hour, attached: true})
		l.up()
		m.sleep(10 * time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != "50" || len(s.Others) != 1 || s.Others[0].ID != "101" {
			m.t.Errorf("%s: %s; job %+v, others %+v", s.State, s.Cause, s.Job, s.Others)
		}
	})
}

func TestAJobWithTheNumberOfTheSessionsIsNotExtended(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.end(m.cluster.jobs[0], "FAILED", nil)
		other := &modelJob{id: m.cluster.jobs[0].id, name: "production", script: "/home/alice/production.sh", submitted: time.Now(), start: time.Now(), limit: 100 * time.Hour}
		m.cluster.jobs = append(m.cluster.jobs, other)
		if _, err := l.agent.server.handleExtend(context.Background(), api.ExtendRequest{Session: modelSession, Seconds: 3600}); err == nil || !other.extended.IsZero() {
			m.t.Errorf("%v, extended %v", err, other.extended)
		}
	})
}

func TestAnUpOfARemovedSectionEndsThePermissionOfTheOneBefore(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "never begins", notBegun: true}}
		l.up()
		m.sleep(5 * time.Second)
		l.section = false
		l.writeConfig()
		l.agent.Reload()
		l.up()
		m.sleep(5 * time.Minute)
		if n := len(m.cluster.jobs); n != 0 {
			m.t.Errorf("%d jobs", n)
		}
	})
}

func TestTheSuccessorOfACancelledOrExtendedJobIsCancelled(t *testing.T) {
	for name, act := range map[string]func(*modelLaptop){"cancelled": (*modelLaptop).cancel, "extended": (*modelLaptop).extend} {
		t.Run(name, func(t *testing.T) {
			withModel(t, func(m *model, l *modelLaptop) {
				l.keep = true
				l.writeConfig()
				l.agent.Reload()
				l.mustUp()
				m.cluster.queue = 5 * time.Hour
				m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
				if len(m.cluster.jobs) != 2 || l.status().Next == nil {
					m.t.Fatalf("%d jobs, next %+v", len(m.cluster.jobs), l.status().Next)
				}
				act(l)
				m.sleep(2 * time.Minute)
				if s := l.status(); m.cluster.jobs[1].live(time.Now()) || s.Next != nil {
					m.t.Errorf("%s: next %+v\n%s", s.State, s.Next, strings.Join(m.log, "\n"))
				}
			})
		})
	}
}

func TestKeepSubmitsNothingAfterAJobThatWasJustCancelled(t *testing.T) {
	withModel(t, func(m *model, l *modelLaptop) {
		l.keep = true
		l.writeConfig()
		l.agent.Reload()
		l.mustUp()
		m.cluster.slowEnd = 5 * time.Minute // the scheduler shows it as running for a while
		due := ledger.KeepAt(*l.status().Job, session.DefaultLimits().KeepLead)
		m.sleep(time.Until(due.Add(-10 * time.Second)))
		l.cancel()
		m.sleep(2 * time.Minute)
		if n := len(m.cluster.jobs); n != 1 {
			m.t.Errorf("%d jobs\n%s", n, strings.Join(m.log, "\n"))
		}
	})
}

// TestLeftBehind has jobs that only one part of tunctl knows of, each of which a small mistake there
// would lose.
func TestLeftBehind(t *testing.T) {
	late := modelSubmit{name: "times out, and the job comes much later", lost: true, appears: 8 * time.Minute}
	t.Run("a second session in doubt is shown after its down", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.cluster.next = []modelSubmit{late}
			l.upOf(modelSecond)
			m.sleep(2 * time.Minute)
			l.downOf(modelSecond, false)
			m.check("after the down")
			m.sleep(10 * time.Minute)
		})
	})
	t.Run("a job of which the scheduler says nothing after its cancel is shown", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			l.mustUp()
			m.sleep(time.Minute)
			m.cluster.set(func() { m.cluster.slowEnd = 10 * time.Minute })
			run := l.host.scheduler
			l.host.scheduler = func(script string) (string, string, int) {
				cancelled := false
				m.cluster.set(func() { cancelled = !m.cluster.jobs[0].ended.IsZero() })
				if cancelled && m.cluster.dialect.ask(script) == askJob {
					return "", m.cluster.dialect.silent(), 1
				}
				return run(script)
			}
			l.down(true)
			m.check("after the down")
		})
	})
	t.Run("an answer without its frame is no refusal", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.cluster.next = []modelSubmit{{name: "is answered without a frame", unframed: true, appears: 3 * time.Minute, lost: true}}
			l.up()
			m.sleep(90 * time.Second)
			m.check("after the answer")
			m.sleep(5 * time.Minute)
		})
	})
	for name, skew := range map[string]time.Duration{
		"a job that is gone is shown for minutes at most":                                  0,
		"a job that is gone is shown for minutes at most, where the host's clock is ahead": 40 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			withModel(t, func(m *model, l *modelLaptop) {
				m.cluster.set(func() { m.cluster.skew, m.cluster.queue, m.cluster.history = skew, time.Hour, false })
				m.job = "job = \"nb\"\n"
				l.writeConfig()
				l.agent.Reload()
				l.mustUp()
				m.sleep(5 * time.Minute)
				l.down(false)
				m.cluster.set(func() {
					now := time.Now()
					m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil)
					m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: "500", name: "nb", script: "/home/alice/nb.sh", submitted: now, start: now, limit: 2 * time.Hour, attached: true})
				})
				m.sleep(6 * time.Minute) // the scheduler has forgotten it
				l.up()
				m.sleep(5 * time.Minute)
				if s := l.status(); s.Job == nil || s.Job.ID != "500" || len(s.Others) != 0 {
					m.t.Errorf("job %+v, others %+v", s.Job, s.Others)
				}
				l.endPermit()
			})
		})
	}
	t.Run("a job that is cancelled while an up finds it by its name is not used", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.job = "job = \"nb\"\n"
			l.writeConfig()
			l.agent.Reload()
			l.mustUp()
			l.down(false)
			s, err := l.agent.Sessions.Find(modelSession)
			if err != nil {
				m.t.Fatal(err)
			}
			first, cancelled := m.cluster.jobs[0], s.Jobs.Current()
			_ = s.Record(func(*facts.Facts) {}, func(r *state.Session) { r.Submissions = r.Submissions.CancelAll(time.Now()) })
			run := l.host.scheduler
			l.host.scheduler = func(script string) (string, string, int) {
				out, errOut, exit := run(script)
				if first.ended.IsZero() && modelShow.MatchString(script) {
					m.cluster.set(func() { m.cluster.end(first, "CANCELLED", l) })
					s.Jobs.Drop(cancelled, *cancelled.Job)
				}
				return out, errOut, exit
			}
			l.up()
			m.sleep(time.Minute)
			if now := l.status(); now.Job == nil || now.Job.ID == first.id || len(m.cluster.jobs) != 2 {
				m.t.Errorf("%d jobs; the session has %+v", len(m.cluster.jobs), now.Job)
			}
		})
	})
	t.Run("a job that ends while jobs are found again is not found again", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			l.mustUp()
			l.down(false)
			first, run, looks := m.cluster.jobs[0], l.host.scheduler, false
			l.host.scheduler = func(script string) (string, string, int) {
				out, errOut, exit := run(script)
				looks = looks || modelFolders.MatchString(script)
				if s, err := l.agent.Sessions.Find(modelSession); looks && first.ended.IsZero() && err == nil && m.cluster.dialect.ask(script) != askOther {
					m.cluster.set(func() { m.cluster.end(first, "CANCELLED", l) })
					sub := s.Jobs.Current()
					s.Jobs.Drop(sub, *sub.Job)
				}
				return out, errOut, exit
			}
			newer, _ := modelStates["newer"](l.stateFile())
			l.crashWith(newer, false)
			l.login()
			if s := l.status(); first.ended.IsZero() || len(shownJobs(s)) != 0 {
				m.t.Errorf("ended at %v; shown %s: %s", first.ended, s.State, ids(shownJobs(s)))
			}
		})
	})
	t.Run("a job that has the number of an earlier one is not found again", func(t *testing.T) {
		withModelOf(t, modelPBS{}, func(m *model, l *modelLaptop) {
			l.mustUp()
			l.down(false)
			m.cluster.set(func() {
				c, now := m.cluster, time.Now()
				c.end(c.jobs[0], "COMPLETED", nil)
				c.jobs = append(c.jobs, &modelJob{id: c.jobs[0].id, name: "production", script: "/home/alice/production.sh", submitted: now, start: now, limit: 100 * time.Hour})
				c.lie, c.lieEnds = modelLie{name: "is silent about single jobs", asks: []modelAsk{askJob}, how: "silent"}, now.Add(5*time.Minute)
			})
			l.crashWith("{", true)
			l.login()
			if s := l.status(); len(shownJobs(s)) != 0 {
				m.t.Errorf("shown %s: %s", s.State, ids(shownJobs(s)))
			}
		})
	})
	t.Run("a down ends the job of an earlier submission", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.cluster.next = []modelSubmit{late}
			l.mustUp()
			l.up()
			m.sleep(10 * time.Minute)
			if s := l.status(); s.Job == nil || len(s.Others) != 1 {
				m.t.Fatalf("job %+v, others %+v", s.Job, s.Others)
			}
			if _, err := l.agent.server.handleDown(context.Background(), api.DownRequest{Session: modelSession, Cancel: true}); err != nil {
				m.t.Error(err)
			}
			l.endPermit()
			for _, j := range m.cluster.jobs {
				if j.live(time.Now()) {
					m.t.Errorf("job %s is left", j.id)
				}
			}
		})
	})
	t.Run("the next job of one that was cancelled elsewhere ends", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			l.keep = true
			l.writeConfig()
			l.agent.Reload()
			l.mustUp()
			m.cluster.queue = 5 * time.Hour
			m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
			if len(m.cluster.jobs) != 2 {
				m.t.Fatalf("%d jobs", len(m.cluster.jobs))
			}
			m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil) }) // by scancel, or another computer
			m.sleep(5 * time.Minute)
			if m.cluster.jobs[1].live(time.Now()) {
				m.t.Error("the next job runs")
			}
		})
	})
	t.Run("the next job of one that was cancelled before the agent crashed is not found again", func(t *testing.T) {
		withModelOf(t, modelGridEngine{}, func(m *model, l *modelLaptop) {
			m.cluster.skew = time.Hour // its jobs seem to be submitted just now
			l.keep = true
			l.writeConfig()
			l.agent.Reload()
			l.mustUp()
			m.cluster.queue = 5 * time.Hour
			m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
			job := l.status().Job.ID
			if _, err := l.agent.server.cancelJob(context.Background(), "hpc", job); err != nil || len(m.cluster.jobs) != 2 {
				m.t.Fatal(err, len(m.cluster.jobs))
			}
			m.cluster.set(func() { m.cluster.lie, m.cluster.lieEnds = modelLies[7], time.Now().Add(6*time.Minute) }) // no accounting
			m.sleep(15 * time.Second)
			l.crash()
			m.sleep(10 * time.Minute)
		})
	})
	t.Run("a next job that was cancelled before the agent crashed is not submitted again", func(t *testing.T) {
		withModelOf(t, modelPBS{}, func(m *model, l *modelLaptop) {
			m.cluster.history = false
			l.keep = true
			l.writeConfig()
			l.agent.Reload()
			l.mustUp()
			m.cluster.queue = 5 * time.Hour
			m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
			next := l.status().Next
			if next == nil {
				m.t.Fatalf("%d jobs, and none follows", len(m.cluster.jobs))
			}
			if _, err := l.agent.server.cancelJob(context.Background(), "hpc", next.ID); err != nil {
				m.t.Fatal(err)
			}
			l.crash()
			m.sleep(5 * time.Minute)
			if s := l.status(); s.Next != nil {
				m.t.Errorf("job %s was to follow again", s.Next.ID)
			}
			if runs, err := l.agent.History.Runs(); err != nil || len(runs) != 1 {
				m.t.Errorf("%+v, %v", runs, err)
			}
		})
	})
	t.Run("a job that was attached is ended once its host is connected again", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			l.attach()
			m.sleep(time.Minute)
			l.lose()
			m.sleep(5 * time.Minute)
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			if _, err := l.agent.server.handleDown(ctx, api.DownRequest{Session: modelHand, Cancel: true}); err == nil {
				m.t.Error("the down has not failed")
			}
			m.sleep(5 * time.Minute)
			l.restore()
			m.sleep(20 * time.Minute)
			if m.cluster.jobs[0].live(time.Now()) {
				m.t.Error("the job runs")
			}
		})
	})
	for name, keep := range map[string]bool{"a job": false, "the next job": true} {
		t.Run(name+" whose answer was lost is shown when its script cannot be read any more", func(t *testing.T) {
			withModel(t, func(m *model, l *modelLaptop) {
				l.keep = keep
				l.writeConfig()
				l.agent.Reload()
				if keep {
					l.mustUp()
				}
				m.cluster.mu.Lock()
				m.cluster.next = []modelSubmit{{name: "makes its job late, and the answer is lost", cut: true, answers: time.Minute, appears: 8 * time.Minute}}
				m.cluster.mu.Unlock()
				l.interpose(func(script string) (string, string, int, bool) {
					m.cluster.mu.Lock()
					defer m.cluster.mu.Unlock()
					return "", "nb.sh: No such file or directory", 1, len(m.cluster.tags) > len(m.cluster.next) && modelReads.MatchString(script)
				})
				if keep {
					m.sleep(46 * time.Minute)
				} else {
					l.up()
				}
				m.sleep(5 * time.Minute)
				m.check("after the lost answer")
			})
		})
	}
	t.Run("an array that is not listed for a while stays an array", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			m.cluster.queue = 5 * time.Hour
			l.upOf(modelArray)
			m.sleep(40 * time.Minute)
			m.cluster.set(func() { m.cluster.lie, m.cluster.lieEnds = modelLies[0], time.Now().Add(50*time.Second) }) // lists no job
			l.crash()
			m.sleep(5 * time.Minute)
			m.check("after the crash")
		})
	})
	t.Run("nothing is submitted without a record", func(t *testing.T) {
		withModel(t, func(m *model, l *modelLaptop) {
			l.fillDisk()
			l.up()
			m.sleep(time.Minute)
			if len(m.cluster.tags) != 0 {
				m.t.Errorf("submitted: %d", len(m.cluster.tags))
			}
		})
	})
}
