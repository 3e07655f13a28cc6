package agent

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
