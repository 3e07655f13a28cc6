package agent

import (
	"fmt"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// LastKnown is the status where no agent is running: the sessions of the config, and the jobs
// in the state file as they were last seen. If that cannot be read, no job is known.
func LastKnown(cfg *configs.Config, stateFile string) (api.Status, error) {
	store, err := state.Open(stateFile)
	return api.Status{Version: api.Version, Hosts: []api.Host{}, Sessions: knownSessions(cfg, store, time.Now())}, err
}

// knownSessions are the sessions of the config, in its order, and those of other names whose job
// may still run, all as if they were down.
func knownSessions(cfg *configs.Config, store *state.Store, now time.Time) []api.Session {
	sessions := make([]api.Session, 0, len(cfg.Sessions))
	for _, c := range cfg.Sessions {
		sessions = append(sessions, lastKnown(store, c, now))
	}
	for _, name := range store.Live() {
		if _, configured := cfg.Session(name); configured {
			continue
		}
		rec := store.Session(name)
		s := lastKnown(store, configs.Session{Name: name, Host: rec.Submissions[0].Host}, now)
		if rec.Attached == "" {
			s = withUnconfiguredHint(s)
		}
		sessions = append(sessions, s)
	}
	return sessions
}

// withUnconfiguredHint says how to end a session that is no longer in the config, or its job.
// Reloading the config never takes one down.
func withUnconfiguredHint(s api.Session) api.Session {
	switch {
	case s.State == api.SessionDown && facts.IsLive(s.Job):
		s.Hint = fmt.Sprintf("the session is not in the config: `tunctl attach %s %s` opens the job, `tunctl down %s --cancel` ends it", s.Host, s.Job.Ref(), s.Name)
	case s.Hint == "":
		s.Hint = fmt.Sprintf("the session is no longer in the config: `tunctl down %s` removes it", s.Name)
	}
	return s
}

// lastKnown is a session that is not up. Its job may still run.
func lastKnown(store *state.Store, cfg configs.Session, now time.Time) api.Session {
	f := remembered(store, cfg.Name)
	f.Host.Alias = cfg.Host
	v := f.Derive(now)
	rec := store.Session(cfg.Name)
	return api.Session{
		Name: cfg.Name, Host: cfg.Host, App: cfg.App, Of: rec.Of, State: v.State, Cause: api.Redact(v.Cause), Hint: v.Hint,
		With: f.Choices(nil), Recent: rec.Recent,
		Job: f.Job, Next: f.Next, Others: f.Submissions.Others(), Pending: f.Submissions.Pending(), Forwards: []api.Forward{},
	}
}

// remembered are the facts about a session that is not up: its jobs, unless they are over.
func remembered(store *state.Store, name string) facts.Facts {
	rec := store.Session(name)
	current := rec.Current()
	f := facts.Facts{Name: name, Job: current.Job, Next: rec.Next().Job, With: current.With, Submissions: rec.Submissions}
	if f.Job != nil && f.Job.State.Ended() {
		f.Job = nil
	}
	return f
}
