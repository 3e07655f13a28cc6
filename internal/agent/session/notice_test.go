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

func TestKeptCells(t *testing.T) {
	s := quietSession(t)
	s.save(t, saved(&api.Job{ID: "7", State: api.JobRunning}, nil))
	check := func(what string, want api.Cells) {
		t.Helper()
		later := newSession(s.parts, s.cfg, fromConfig) // after a restart
		for _, cells := range []api.Cells{s.Status().Cells, lastKnown(s.cfg, later.Saved(), time.Now()).Cells} {
			if cells != want {
				t.Errorf("%s: %+v, want %+v", what, cells, want)
			}
		}
	}
	for _, step := range []struct {
		what       string
		told, want api.Cells
		notice     bool
	}{
		{"the page is gone", api.Cells{Running: 3}, api.Cells{Running: 3}, false},
		{"one of three has finished", api.Cells{Running: 2, Finished: 1}, api.Cells{Running: 3}, false},
		{"the next waits for input", api.Cells{Running: 1, Waiting: 1, Finished: 2, Trouble: "full"}, api.Cells{Running: 1, Finished: 2}, true},
		{"all have finished", api.Cells{Finished: 3}, api.Cells{Finished: 3}, true},
		{"again", api.Cells{Finished: 3}, api.Cells{Finished: 3}, false},
		{"the page has taken two", api.Cells{Finished: 1}, api.Cells{Finished: 1}, false},
		{"and all", api.Cells{}, api.Cells{}, false},
		{"another one", api.Cells{Finished: 1}, api.Cells{Finished: 1}, true},
	} {
		if keepCells(s, "7", map[string]api.Cells{"relay": step.told}) != step.notice {
			t.Errorf("%s: a notice is wrong", step.what)
		}
		check(step.what, step.want)
	}
	keepCells(s, "7", map[string]api.Cells{"next": {Running: 1, Finished: 1}})
	check("the next relay", api.Cells{Running: 2, Finished: 1})
	SetFinished(s, 5)
	check("as a user has found", api.Cells{Running: 2, Finished: 5})
	SetFinished(s, 0)
	check("cleared", api.Cells{Running: 2})
	s.save(t, state.Session{Cells: s.Saved().Cells})
	check("the job is over", api.Cells{Finished: 2})
}

func TestTheMarksGoFromTheLongestToTheShortest(t *testing.T) {
	if marks := DefaultLimits().Run.Remind; !slices.IsSortedFunc(marks, func(a, b time.Duration) int { return int(b - a) }) {
		t.Errorf("the marks are %v", marks)
	}
}
