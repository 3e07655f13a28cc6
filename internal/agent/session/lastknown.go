package session

import (
	"fmt"
	"slices"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// LastKnown is the status where no agent is running: the sessions of the config, and the jobs
// in the state file as they were last seen. The error is why that may not be all.
func LastKnown(cfg *configs.Config, stateFile string) (api.Status, error) {
	store, err := state.Open(stateFile)
	if err == nil {
		err = store.Unread()
	}
	return api.Status{Version: api.Version, Hosts: []api.Host{}, Sessions: knownSessions(cfg, store, time.Now())}, err
}

// knownSessions are the sessions of the config, in its order, and those of other names whose job
// may still run, all as if they were down.
func knownSessions(cfg *configs.Config, store *state.Store, now time.Time) []api.Session {
	sessions := make([]api.Session, 0, len(cfg.Sessions))
	for _, c := range cfg.Sessions {
		sessions = append(sessions, lastKnown(c, store.Session(c.Name), now))
	}
	for _, name := range store.Live() {
		if _, configured := cfg.Session(name); configured {
			continue
		}
		rec := store.Session(name)
		if len(rec.Submissions) == 0 { // its job has ended just now
			continue
		}
		s := lastKnown(configs.Session{Name: name, Host: rec.Submissions[0].Host}, rec, now)
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

// lastKnown is a session that is not up, and of which that is remembered. Its job may still run.
func lastKnown(cfg configs.Session, rec state.Session, now time.Time) api.Session {
	f := facts.Facts{Name: cfg.Name, Saved: rec, Host: api.Host{Alias: cfg.Host}}
	f.Saved.Submissions = rec.Submissions.Restarted(cfg.Host, now)
	v := f.Derive(now)
	s := api.Session{
		Name: cfg.Name, Host: cfg.Host, App: cfg.App, Of: rec.Of, State: v.State, Cause: api.Redact(v.Cause), Hint: v.Hint,
		With: f.Choices(), Recent: rec.Recent, Forwards: []api.Forward{},
	}
	f.ShowJobs(&s)
	return s
}

// All are all sessions: those of the config, in its order, and then others that are up or whose job may
// still run.
func (r *Registry) All() []api.Session {
	all := knownSessions(r.Settings.Config(), r.Store, time.Now())
	for _, s := range r.Live() {
		now := s.Status()
		if r.isRemoved(s) {
			now = withUnconfiguredHint(now)
		}
		if i := slices.IndexFunc(all, func(x api.Session) bool { return x.Name == s.Name }); i >= 0 {
			all[i] = now
		} else {
			all = append(all, now)
		}
	}
	return all
}
