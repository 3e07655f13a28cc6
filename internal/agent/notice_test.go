package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/events"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

// quietSession is a session that is ready, with nothing behind it.
func quietSession(t *testing.T) *session {
	t.Helper()
	st, err := state.Open(filepath.Join(t.TempDir(), "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	limits, paths := DefaultLimits(), home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	a := &shared{
		settings: settings.Open(paths, "", log), limits: limits, log: log, hub: events.NewHub(), store: st, history: state.NewHistory(filepath.Join(t.TempDir(), "history")),
	}
	a.hosts = hosts.New(hosts.Options{Settings: a.settings, Store: st, Log: log, Changed: func(api.Host) {}, Connections: limits.Tunnel, Jobs: limits.Jobs, Quota: limits.Quota})
	a.pool, a.sessions = a.hosts.Pool, newRegistry(a)
	s := newSession(a, configs.Session{Name: "jupyter", Host: "narval", Submit: "~/jupyter.sh"}, fromConfig, "")
	s.facts = facts.Facts{Started: true, NeedsJob: true, Host: api.Host{State: api.HostUp}, Answers: true, Remind: a.limits.Remind}
	s.save(t, wanted)
	return s
}

// wanted is the record of a session that is up, and has no job.
var wanted = state.Session{Wanted: true}

// saved is the record of a session that is up, with its job and why it failed.
func saved(job *api.Job, failure *api.Error) state.Session {
	rec := state.Session{Wanted: true, Failure: failure}
	if job != nil {
		rec.Submissions = state.Submissions{{Role: state.RoleJob, Job: job}}
	}
	return rec
}

// save replaces the record of a session.
func (s *session) save(t *testing.T, rec state.Session) {
	t.Helper()
	if err := s.record(func(r *state.Session) { *r = rec }); err != nil {
		t.Fatal(err)
	}
}

// notices collects the texts of notices.
func notices(w *events.Subscriber) []string {
	var texts []string
	for {
		select {
		case e := <-w.C:
			if e.Type == api.EventNotice && e.Notice.Kind == api.NoticeTimeLimit {
				texts = append(texts, e.Notice.Text)
			}
		default:
			return texts
		}
	}
}

func TestNoticesFitANotification(t *testing.T) {
	s := quietSession(t)
	heard := s.agent.hub.Subscribe("", api.AnswersNone)
	now := time.Now()
	midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.Local)
	ending := api.Job{ID: "48213345", State: api.JobRunning, Start: midnight.Add(-2 * time.Hour), End: midnight.Add(8 * time.Minute)} // told with the day
	newReminder(s).remind(ending, midnight.Add(-20*time.Minute))
	texts := notices(heard)
	if len(texts) != 1 {
		t.Fatalf("told %q", texts)
	}
	var c certificates
	texts = append(texts, c.notice(api.Host{Alias: "narval", State: api.HostUp, CertificateEnds: midnight}, midnight.Add(-20*time.Minute)).Text)
	for _, text := range texts {
		title, body, ok := strings.Cut(text, ": ")
		if !ok || len([]rune(title)) > 40 || body == "" || strings.Contains(text, "`") || strings.Contains(text, "tunctl ") {
			t.Errorf("%q: the title has %d characters", text, len([]rune(title)))
		}
	}
}

func TestAPersonIsToldThreeTimesBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietSession(t)
		heard := s.agent.hub.Subscribe("", api.AnswersNone)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReminder(s)
		go r.serve(ctx)

		job := api.Job{ID: "7", State: api.JobRunning, Start: time.Now(), End: time.Now().Add(2 * time.Hour)}
		s.save(t, saved(&job, nil))
		r.updates <- job
		for _, step := range []struct {
			after time.Duration
			want  string // in the notice; none if empty
			near  bool
		}{
			{89 * time.Minute, "", false},
			{time.Minute, "jupyter ends in 30 min", true},
			{19 * time.Minute, "", true},
			{time.Minute, "jupyter ends in 10 min", true},
			{8 * time.Minute, "jupyter ends in 2 min", true},
			{2 * time.Minute, "", false},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			got := notices(heard)
			if step.want == "" && len(got) > 0 || step.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], step.want)) {
				t.Errorf("%v later: %q, want %q", step.after, got, step.want)
			}
			st := s.Status()
			if near := strings.Contains(st.Cause, " ends at "); near != step.near || st.State != api.SessionReady {
				t.Errorf("%v later the session is %s: %q", step.after, st.State, st.Cause)
			}
		}
	})
}

func TestAnExtendedJobIsToldOfAgainAndTheOldWarningGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quietSession(t)
		heard := s.agent.hub.Subscribe("", api.AnswersNone)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newReminder(s)
		go r.serve(ctx)
		tell := func(left time.Duration) []string {
			job := api.Job{ID: "7", State: api.JobRunning, Start: time.Now().Add(-5 * time.Hour), End: time.Now().Add(left)}
			s.jobs.SetJob(job)
			r.updates <- job
			synctest.Wait()
			return notices(heard)
		}
		if got := tell(5 * time.Minute); len(got) != 1 {
			t.Errorf("five minutes before the end: %q", got)
		}
		if got := tell(5*time.Minute + 20*time.Second); len(got) != 0 {
			t.Errorf("an end that moved by seconds is told again: %q", got)
		}
		if got := tell(time.Hour); len(got) != 0 || s.Status().Cause != "" {
			t.Errorf("extended by an hour: %q, cause %q", got, s.Status().Cause)
		}
		if got := tell(9 * time.Minute); len(got) != 1 {
			t.Errorf("before the new end: %q", got)
		}
	})
}

func TestALaptopThatSleptThroughAMarkIsToldWithinAMinute(t *testing.T) {
	// A sleeping laptop's timers stand still while the clock goes on, which to a timer
	// looks like an end that came nearer by itself.
	synctest.Test(t, func(t *testing.T) {
		s := quietSession(t)
		heard := s.agent.hub.Subscribe("", api.AnswersNone)
		r := newReminder(s)
		start := time.Now()
		job := api.Job{ID: "7", State: api.JobRunning, Start: start, End: start.Add(8 * time.Hour)}
		s.jobs.SetJob(job)
		r.remind(job, start)
		r.remind(job, start.Add(8*time.Hour-5*time.Minute)) // the first look after the wake
		if got := notices(heard); len(got) != 1 || !strings.Contains(got[0], "in 5 min") {
			t.Errorf("after the wake: %q", got)
		}
	})
}

func TestTheMarksGoFromTheLongestToTheShortest(t *testing.T) {
	if marks := DefaultLimits().Remind; !slices.IsSortedFunc(marks, func(a, b time.Duration) int { return int(b - a) }) {
		t.Errorf("the marks are %v", marks)
	}
}

func TestACertificateThatEndsSoonIsToldOnce(t *testing.T) {
	a := &Agent{shared: quietSession(t).agent}
	heard := a.hub.Subscribe("", api.AnswersNone)
	ends := time.Now().Add(30 * time.Minute)
	up := api.Host{Alias: "narval", State: api.HostUp}
	soon := up
	soon.CertificateEnds = ends
	far := up
	far.CertificateEnds = ends.Add(time.Hour)
	renewed := up
	renewed.CertificateEnds = ends.Add(-5 * time.Minute)
	for _, h := range []api.Host{up, far, soon, soon, renewed} {
		a.hostChanged(h)
	}
	var told []api.Notice
	for range 7 { // five changes and two notices
		if e := <-heard.C; e.Type == api.EventNotice {
			told = append(told, *e.Notice)
		}
	}
	if len(told) != 2 || told[0].Host != "narval" || told[0].Kind != api.NoticeNeedsLogin || !strings.Contains(told[0].Text, "certificate") {
		t.Errorf("told %+v", told)
	}
}
