package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/agent/facts"
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
			l.reload()
		}
		test(m, m.laptops[0])
		m.finish()
		if m.failed {
			t.Error(strings.Join(m.log, "\n"))
		}
	})
}

// onModel runs a subtest on one laptop of a model.
func onModel(t *testing.T, name string, test func(m *model, l *modelLaptop)) {
	t.Run(name, func(t *testing.T) { withModel(t, test) })
}

func onModelOf(t *testing.T, name string, dialect modelDialect, test func(m *model, l *modelLaptop)) {
	t.Run(name, func(t *testing.T) { withModelOf(t, dialect, test) })
}

// upWithKeep brings the session up, with keep.
func (l *modelLaptop) upWithKeep() {
	l.m.t.Helper()
	l.keep = true
	l.reload()
	l.mustUp()
}

// findByName has the job's name in the config.
func (l *modelLaptop) findByName() {
	l.m.job = "job = \"nb\"\n"
	l.reload()
}

// served has the session's job have served: the jobs of a model run on no node.
func (l *modelLaptop) served() {
	l.m.t.Helper()
	s, err := l.agent.Sessions.Find(modelSession)
	must(l.m.t, err)
	must(l.m.t, s.Record(func(f *facts.Facts) { f.Served = true }, func(r *state.Session) {
		r.Submissions = r.Submissions.Change(r.Current(), func(x *state.Submission) { x.Served = true })
	}))
}

// upWithNext brings the session up with a job that another is to follow, which waits.
func (l *modelLaptop) upWithNext() (next api.Job) {
	l.m.t.Helper()
	l.upWithKeep()
	l.m.cluster.queue = 5 * time.Hour
	l.m.sleep(time.Until(l.m.cluster.jobs[0].start.Add(46 * time.Minute)))
	s := l.status()
	if len(l.m.cluster.jobs) != 2 || s.Next == nil {
		l.m.t.Fatalf("%d jobs, next %+v", len(l.m.cluster.jobs), s.Next)
	}
	return *s.Next
}

// hears returns the texts of all notices after it.
func (l *modelLaptop) hears() (told func() []string) {
	events := l.agent.Hub.Subscribe("desktop", api.AnswersNone)
	var texts []string
	var all sync.WaitGroup
	all.Go(func() {
		for e := range events.C {
			if e.Notice != nil {
				texts = append(texts, e.Notice.Text)
			}
		}
	})
	return func() []string {
		l.agent.Hub.Unsubscribe(events)
		all.Wait()
		return texts
	}
}

// hasJobs checks how many jobs there were.
func (m *model) hasJobs(n int) {
	m.t.Helper()
	if len(m.cluster.jobs) != n {
		m.t.Errorf("%d jobs, want %d\n%s", len(m.cluster.jobs), n, strings.Join(m.log, "\n"))
	}
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

func TestUp(t *testing.T) {
	onModel(t, "does not wait for a slow cancel", func(m *model, l *modelLaptop) {
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
	onModel(t, "asks the scheduler at once", func(m *model, l *modelLaptop) {
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
	onModel(t, "chooses none of several jobs", func(m *model, l *modelLaptop) {
		l.findByName()
		for _, id := range []string{"7", "8"} {
			m.cluster.jobs = append(m.cluster.jobs, &modelJob{id: id, name: "nb", script: "/home/alice/nb.sh", submitted: time.Now(), start: time.Now(), limit: time.Hour, attached: true})
		}
		l.mustUp()
		if s := l.status(); len(s.Candidates) != 2 || s.Job != nil || len(l.submissions()) != 0 {
			m.t.Errorf("%s: candidates %+v, job %+v, submissions %+v", s.State, s.Candidates, s.Job, l.submissions())
		}
		if s := l.status(); s.State != api.SessionFailed || !names(s.Cause, "7") || !names(s.Cause, "8") || !strings.Contains(s.Hint, "tunctl attach hpc 8") {
			m.t.Errorf("%s: %q, hint %q", s.State, s.Cause, s.Hint)
		}
		m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil) })
		m.sleep(time.Minute)
		l.mustUp()
		if s := l.status(); s.Job == nil || s.Job.ID != "8" {
			m.t.Errorf("%s: %s; job %+v", s.State, s.Cause, s.Job)
		}
		m.hasJobs(2)
	})
	onModel(t, "after a submission in doubt is a person's to decide", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "times out, and makes none", lost: true, appears: -1}}
		must(m.t, l.request(api.UpRequest{}))
		m.sleep(time.Minute)
		if s := l.status(); s.State != api.SessionFailed || s.Code != api.CodeNeedsPerson || !strings.Contains(s.Cause, "cannot tell whether the job was submitted") || s.Hint == "" {
			m.t.Errorf("%s: %q (%s, %s)", s.State, s.Cause, s.Hint, s.Code)
		}
		must(m.t, l.request(api.UpRequest{})) // they looked: it was not
		m.hasJobs(1)
	})
	onModel(t, "after the night starts a new job with one login", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.lose()
		m.sleep(5 * time.Minute)
		logins := len(l.host.logins)
		m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "FAILED", nil) })
		must(m.t, l.request(api.UpRequest{}))
		l.restore()
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Cause != "waiting for job 102" || len(l.host.logins) != logins+1 {
			m.t.Errorf("%s: %s; job %+v, %d logins", s.State, s.Cause, s.Job, len(l.host.logins)-logins)
		}
	})
	onModelOf(t, "after a cancel does not use the job that ends", modelPBS{}, func(m *model, l *modelLaptop) {
		l.findByName()
		m.cluster.slowEnd = 90 * time.Second
		l.mustUp()
		_, err := l.cancelWithin(time.Minute)
		must(m.t, err)
		must(m.t, l.request(api.UpRequest{}))
		m.sleep(time.Minute)
		if s := l.status(); s.Job == nil || s.Job.ID != m.cluster.dialect.id(102) {
			m.t.Errorf("%s: %s; job %+v", s.State, s.Cause, s.Job)
		}
	})
	onModel(t, "a down during the submission ends the job that it made", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "is slow", answers: 10 * time.Second}}
		must(m.t, l.request(api.UpRequest{}))
		m.hasJobs(1)
		_, err := l.cancelWithin(15 * time.Minute)
		must(m.t, err)
		if m.cluster.jobs[0].live(time.Now()) {
			m.t.Error("the job that was submitted keeps running")
		}
	})
}

func TestCancel(t *testing.T) {
	onModel(t, "that cannot be made is made later", func(m *model, l *modelLaptop) {
		l.mustUp()
		l.host.unreachable(errNoNetwork)
		m.sleep(5 * time.Minute)
		_, err := l.cancelWithin(time.Minute)
		if e, ok := errors.AsType[*api.Error](err); !ok || !strings.Contains(e.Message, "job 101 was not ended yet") || !strings.Contains(e.Hint, "tunctl jobs hpc") {
			m.t.Errorf("err = %v", err)
		}
		l.endPermit()
		l.crash()
		l.restore()
		l.login()
		m.sleep(2 * time.Minute)
		if m.cluster.jobs[0].live(time.Now()) || l.status().Job != nil {
			m.t.Errorf("the job was not ended: %+v", l.status())
		}
	})
	onModel(t, "is looked after until the job has ended", func(m *model, l *modelLaptop) {
		l.mustUp()
		m.cluster.slowEnd = 90 * time.Second // the down may wait a minute for its turn to ask the scheduler
		_, err := l.cancelWithin(15 * time.Minute)
		must(m.t, err)
		if s := l.status(); s.Cause != "job 101 is about to end" {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
		m.sleep(3 * time.Minute)
		if s := l.status(); s.Job != nil {
			m.t.Errorf("%s: %s", s.State, s.Cause)
		}
	})
	onModel(t, "that fails leaves the next job", func(m *model, l *modelLaptop) {
		t := m.t
		l.upWithKeep()
		m.cluster.queue = 5 * time.Minute
		m.sleep(time.Until(m.cluster.jobs[0].start.Add(46 * time.Minute)))
		l.interpose(func(script string) (string, string, int, bool) {
			c := modelCancel.FindStringSubmatch(script)
			return "", "scancel: error: Kill job error on job id 101: Access/permission denied", 1, c != nil && c[1] == m.cluster.jobs[0].id
		})
		if _, err := l.agent.server.cancelJob(context.Background(), "hpc", m.cluster.jobs[0].id); err == nil {
			t.Error("it did not fail")
		}
		m.sleep(2 * time.Minute)
		if s := l.status(); len(m.cluster.jobs) != 2 || !m.cluster.jobs[1].live(time.Now()) || s.Next == nil {
			t.Errorf("%d jobs, next %+v", len(m.cluster.jobs), s.Next)
		}
	})
	onModel(t, "waits for a job that may appear", func(m *model, l *modelLaptop) {
		must(m.t, l.agent.Store.Update(modelSession, func(r *state.Session) {
			r.Submissions = state.Submissions{{Tag: "nb-lost", Role: state.RoleJob, Host: "hpc"}}
		}))
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

func TestSubmissionInDoubt(t *testing.T) {
	onModelOf(t, "is found below newer jobs", modelPBS{}, func(m *model, l *modelLaptop) {
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
	onModel(t, "is not settled by another laptop's job of the same name", func(m *model, l *modelLaptop) {
		l.findByName()
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

// TestLeftBehind has jobs that only one part of tunctl knows of, each of which a small mistake there
// would lose.
func TestLeftBehind(t *testing.T) {
	late := modelSubmit{name: "times out, and the job comes much later", lost: true, appears: 8 * time.Minute}
	onModel(t, "a second session in doubt is shown after its down", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{late}
		l.upOf(modelSecond)
		m.sleep(2 * time.Minute)
		l.downOf(modelSecond, false)
		m.check("after the down")
		m.sleep(10 * time.Minute)
	})
	onModel(t, "a job of which the scheduler says nothing after its cancel is shown", func(m *model, l *modelLaptop) {
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
	onModel(t, "an answer without its frame is no refusal", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{{name: "is answered without a frame", unframed: true, appears: 3 * time.Minute, lost: true}}
		l.up()
		m.sleep(90 * time.Second)
		m.check("after the answer")
		m.sleep(5 * time.Minute)
	})
	for name, skew := range map[string]time.Duration{
		"a job that is gone is shown for minutes at most":                                  0,
		"a job that is gone is shown for minutes at most, where the host's clock is ahead": 40 * time.Minute,
	} {
		onModel(t, name, func(m *model, l *modelLaptop) {
			m.cluster.set(func() { m.cluster.skew, m.cluster.queue, m.cluster.history = skew, time.Hour, false })
			l.findByName()
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
	}
	onModel(t, "a job that is cancelled while an up finds it by its name is not used", func(m *model, l *modelLaptop) {
		l.findByName()
		l.mustUp()
		l.down(false)
		s, err := l.agent.Sessions.Find(modelSession)
		must(m.t, err)
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
	onModel(t, "a job that ends while jobs are found again is not found again", func(m *model, l *modelLaptop) {
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
	onModelOf(t, "a job that has the number of an earlier one is not found again", modelPBS{}, func(m *model, l *modelLaptop) {
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
	onModel(t, "a down ends the job of an earlier submission", func(m *model, l *modelLaptop) {
		m.cluster.next = []modelSubmit{late}
		l.mustUp()
		l.up()
		m.sleep(10 * time.Minute)
		if s := l.status(); s.Job == nil || len(s.Others) != 1 {
			m.t.Fatalf("job %+v, others %+v", s.Job, s.Others)
		}
		_, err := l.cancelWithin(15 * time.Minute)
		must(m.t, err)
		for _, j := range m.cluster.jobs {
			if j.live(time.Now()) {
				m.t.Errorf("job %s is left", j.id)
			}
		}
	})
	onModel(t, "the next job of one that was cancelled elsewhere ends", func(m *model, l *modelLaptop) {
		l.upWithNext()
		m.cluster.set(func() { m.cluster.end(m.cluster.jobs[0], "CANCELLED", nil) }) // by scancel, or another computer
		m.sleep(5 * time.Minute)
		if m.cluster.jobs[1].live(time.Now()) {
			m.t.Error("the next job runs")
		}
	})
	onModelOf(t, "the next job of one that was cancelled before the agent crashed is not found again", modelGridEngine{}, func(m *model, l *modelLaptop) {
		m.cluster.skew = time.Hour // its jobs seem to be submitted just now
		l.upWithNext()
		job := l.status().Job.ID
		_, err := l.agent.server.cancelJob(context.Background(), "hpc", job)
		must(m.t, err)
		m.cluster.set(func() { m.cluster.lie, m.cluster.lieEnds = modelLies[7], time.Now().Add(6*time.Minute) }) // no accounting
		m.sleep(15 * time.Second)
		l.crash()
		m.sleep(10 * time.Minute)
	})
	onModelOf(t, "a next job that was cancelled before the agent crashed is not submitted again", modelPBS{}, func(m *model, l *modelLaptop) {
		m.cluster.history = false
		next := l.upWithNext()
		_, err := l.agent.server.cancelJob(context.Background(), "hpc", next.ID)
		must(m.t, err)
		l.crash()
		m.sleep(5 * time.Minute)
		if s := l.status(); s.Next != nil {
			m.t.Errorf("job %s was to follow again", s.Next.ID)
		}
		if runs, err := l.agent.History.Runs(); err != nil || len(runs) != 1 {
			m.t.Errorf("%+v, %v", runs, err)
		}
	})
	onModel(t, "a job that was attached is ended once its host is connected again", func(m *model, l *modelLaptop) {
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
	for name, keep := range map[string]bool{"a job": false, "the next job": true} {
		onModel(t, name+" whose answer was lost is shown when its script cannot be read any more", func(m *model, l *modelLaptop) {
			l.keep = keep
			l.reload()
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
	}
	onModel(t, "an array that is not listed for a while stays an array", func(m *model, l *modelLaptop) {
		m.cluster.queue = 5 * time.Hour
		l.upOf(modelArray)
		m.sleep(40 * time.Minute)
		m.cluster.set(func() { m.cluster.lie, m.cluster.lieEnds = modelLies[0], time.Now().Add(50*time.Second) }) // lists no job
		l.crash()
		m.sleep(5 * time.Minute)
		m.check("after the crash")
	})
	onModel(t, "nothing is submitted without a record", func(m *model, l *modelLaptop) {
		l.fillDisk()
		l.up()
		m.sleep(time.Minute)
		if len(m.cluster.tags) != 0 {
			m.t.Errorf("submitted: %d", len(m.cluster.tags))
		}
	})
}

func TestCancelOfAJob(t *testing.T) {
	onModel(t, "is what its session shows as asked for", func(m *model, l *modelLaptop) {
		m.cluster.slowEnd = 10 * time.Second
		l.mustUp()
		l.served()
		l.cancel()
		for range 12 {
			m.sleep(30 * time.Second)
			if s := l.status(); s.State == api.SessionEnded {
				if !s.Asked {
					m.t.Errorf("%s, not asked for: %s; job %+v", s.State, s.Cause, s.Job)
				}
				return
			}
		}
		m.t.Errorf("it did not end: %+v", l.status())
	})
}

func TestRunCommand(t *testing.T) {
	for _, how := range append([]modelSubmit{{}}, modelSubmits...) {
		onModel(t, "is submitted once, where the submit command "+how.name, func(m *model, l *modelLaptop) {
			l.connect()
			m.cluster.next = []modelSubmit{how}
			l.submitOne(modelRun)
			if n := len(m.cluster.tags); n > 1 || n == 0 && how.name == "" {
				m.t.Errorf("submitted: %d", n)
			}
		})
	}
}
