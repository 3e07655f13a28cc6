package session

import (
	"log/slog"
	"path/filepath"
	"slices"
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
	"tunctl/internal/usage"
)

// quietSession is a session that is ready, with nothing behind it.
func quietSession(t *testing.T) *Session {
	t.Helper()
	st, err := state.Open(filepath.Join(t.TempDir(), "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	limits, paths := DefaultLimits(), home.Paths{Config: filepath.Join(t.TempDir(), "config.toml")}
	a := &Parts{
		Settings: settings.Open(paths, "", log), Limits: limits, Log: log, Hub: events.NewHub(), Usage: usage.NewHub(), Store: st, History: state.NewHistory(filepath.Join(t.TempDir(), "history")),
	}
	a.Hosts = hosts.New(hosts.Options{Settings: a.Settings, Store: st, Relays: filepath.Join(t.TempDir(), "relays"), Log: log, Changed: func(api.Host) {}, Connections: limits.Tunnel, Jobs: limits.Jobs, Quota: limits.Quota})
	NewRegistry(a)
	s := newSession(a, configs.Session{Name: "jupyter", Host: "narval", Submit: "~/jupyter.sh"}, fromConfig)
	s.facts = facts.Facts{Started: true, NeedsJob: true, Host: api.Host{State: api.HostUp}, Answers: true, Remind: a.Limits.Run.Remind}
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
func (s *Session) save(t *testing.T, rec state.Session) {
	t.Helper()
	if err := s.record(func(r *state.Session) { *r = rec }); err != nil {
		t.Fatal(err)
	}
}

func TestTheMarksGoFromTheLongestToTheShortest(t *testing.T) {
	if marks := DefaultLimits().Run.Remind; !slices.IsSortedFunc(marks, func(a, b time.Duration) int { return int(b - a) }) {
		t.Errorf("the marks are %v", marks)
	}
}
