package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// session returns the session of that name. One that is not known yet is created from
// the config, or from what is remembered.
func (a *Agent) session(name string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	config := a.settings.Config()
	cfg, configured := config.Session(name)
	s, live := a.sessions[name]
	switch {
	case live && (!configured || s.origin != orphaned):
		return s, nil
	case configured: // also one that the config has again
		return a.addLocked(cfg, fromConfig), nil
	}
	if s, ok := a.restoreLocked(name); ok {
		return s, nil
	}
	problem := a.settings.Problem()
	switch {
	case problem != nil:
		return nil, api.Errorf(api.CodeConfig, "%s", problem.Message).
			WithHint("fix the file; `tunctl config check` checks it")
	case len(config.Sessions) == 0 && len(a.sessions) == 0:
		return nil, api.Errorf(api.CodeConfig, "no sessions in %s", config.Path).
			WithHint("`tunctl init` creates one; `tunctl config edit` starts from an example; `tunctl demo` needs none")
	}
	names := make([]string, 0, len(config.Sessions))
	for _, s := range config.Sessions {
		names = append(names, s.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(a.sessions)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return nil, api.Errorf(api.CodeUnknownSession, "no session %q in %s", name, config.Path).
		WithHint("%s", cmp.Or(suggest.Hint(name, names), "`tunctl init` adds one"))
}

func (a *Agent) addLocked(cfg configs.Session, from origin) *session {
	s := newSession(a, cfg)
	s.origin = from
	a.sessions[s.name] = s
	return s
}

// restoreLocked creates a remembered session that is in no config.
func (a *Agent) restoreLocked(name string) (*session, bool) {
	rec := a.store.Session(name)
	switch {
	case rec.Attached == "" && !rec.Submissions.AnyLive():
		return nil, false
	case rec.Attached == "":
		return a.addLocked(attachedConfig(name, rec.Submissions[0].Host), orphaned), true
	case rec.Of != "":
		if cfg, configured := a.settings.Config().Session(rec.Of); configured {
			return a.addSecondLocked(name, cfg), true
		}
	case len(rec.Forwards) > 0:
		return a.addLocked(configs.Session{Name: name, Host: rec.Attached, Forward: a.savedForwards(name, rec.Forwards)}, adhoc), true
	}
	return a.addLocked(attachedConfig(name, rec.Attached), attached), true
}

// handleDown takes one session down, or all.
func (a *Agent) handleDown(ctx context.Context, req api.DownRequest) (api.DownResponse, error) {
	targets := a.live()
	if !req.All {
		s, err := a.session(req.Session)
		if err != nil {
			return api.DownResponse{}, err
		}
		targets = []*session{s}
	}
	done := api.DownResponse{Sessions: []api.Session{}}
	for _, s := range targets {
		after, err := s.stop(ctx, req.Cancel)
		if err != nil {
			return done, err
		}
		after.Forgotten = a.dropUnconfigured(s)
		done.Sessions = append(done.Sessions, after)
	}
	return done, nil
}

// live are the sessions that were up since the agent started, by name. The lock of a
// session is never taken under the agent's.
func (a *Agent) live() []*session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.sessions), func(x, y *session) int { return strings.Compare(x.name, y.name) })
}

// isRemoved reports whether the config had the session, and has it no longer.
func (a *Agent) isRemoved(s *session) bool {
	_, configured := a.settings.Config().Session(s.name)
	return !configured && (s.origin == fromConfig || s.origin == orphaned)
}

// removedError is the error for an up of a session whose section of the config is gone; nil if
// it is not.
func (a *Agent) removedError(s *session) error {
	base := cmp.Or(a.store.Session(s.name).Of, s.name)
	if _, configured := a.settings.Config().Session(base); configured || base == s.name && !a.isRemoved(s) {
		return nil
	}
	e := api.Errorf(api.CodeUnknownSession, "session %q is no longer in %s", base, a.opt.Paths.Config).
		WithHint("`tunctl config edit` opens the file")
	if now := s.status(); facts.IsLive(now.Job) {
		e.Hint = fmt.Sprintf("its job %s may still run: `tunctl attach %s %s` opens it, `tunctl down %s --cancel` ends it", now.Job.ID, now.Host, now.Job.Ref(), s.name)
	}
	return e
}

// dropUnconfigured drops a session that was taken down and is not in the config, and
// reports whether it did.
func (a *Agent) dropUnconfigured(s *session) bool {
	_, configured := a.settings.Config().Session(s.name)
	mayRun := func(x state.Submission) bool { return x.Tag != "" && x.Live() } // tunctl has started its job
	switch {
	case configured && s.origin == orphaned:
		a.unregister(s) // it has a section again, which the next request uses
		return false
	case slices.ContainsFunc(a.store.Session(s.name).Submissions, mayRun):
		return false
	case s.origin != fromConfig && s.origin != orphaned:
		a.forget(s)
		return true
	case configured:
		return false
	}
	a.unregister(s) // the state file keeps it: its job is found again if the config has it again
	return true
}

// dropIfDown is dropUnconfigured for a session that is down, unless it is just being brought up
// or taken down.
func (a *Agent) dropIfDown(s *session) {
	if s.acting.TryLock() {
		defer s.acting.Unlock()
		a.dropIfDownLocked(s)
	}
}

func (a *Agent) dropIfDownLocked(s *session) {
	if s.status().State == api.SessionDown {
		a.dropUnconfigured(s)
	}
}

// forget drops a session that is in no config, and what is remembered of it.
func (a *Agent) forget(s *session) {
	if err := a.store.Drop(s.name); err != nil {
		a.log.Error("cannot remove the session", "session", s.name, "err", err)
	}
	a.unregister(s)
}

// unregister removes a session that is down from the list, and publishes that unless
// the config has it.
func (a *Agent) unregister(s *session) {
	a.mu.Lock()
	_, configured := a.settings.Config().Session(s.name)
	delete(a.sessions, s.name)
	a.mu.Unlock()
	if configured {
		return // saved meanwhile: it is down, but still exists
	}
	gone := s.status()
	a.hub.Publish(api.Event{Type: api.EventSessionGone, Session: &gone})
}

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
