package session

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
)

// Registry has the sessions by name, whatever they come from: their section of the config, another
// session's, a job that was started by hand, forwards of no config, or what is remembered. Only here
// a name becomes a session.
type Registry struct {
	*Parts

	pause      atomic.Pointer[api.Problem] // of what is restored; nil: none
	recoveries sync.Map                    // a ctxtime.Mutex by the name of its host, which a recovery of its jobs holds
	mu         sync.Mutex
	byName     map[string]*Session // that were up since the agent started
	waiters    []string            // the commands that wait for sessions: each keeps a stream of events open under its name
}

// NewRegistry returns the registry of an agent with such parts, of which it becomes one.
func NewRegistry(a *Parts) *Registry {
	a.unsettled = make(chan struct{}, 1)
	a.Sessions = &Registry{Parts: a, byName: map[string]*Session{}}
	return a.Sessions
}

// Find returns the session of that name. One that is not known yet is created from
// the config, or from what is remembered.
func (r *Registry) Find(name string) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := r.Settings.Config()
	cfg, configured := config.Session(name)
	s, live := r.byName[name]
	switch {
	case live && (!configured || s.origin != orphaned):
		return s, nil
	case configured: // also one that the config has again
		return r.addLocked(cfg, fromConfig), nil
	}
	if s, ok := r.restoreLocked(name); ok {
		return s, nil
	}
	problem := r.Settings.Problem()
	switch {
	case problem != nil:
		return nil, api.Errorf(api.CodeConfig, "%s", problem.Message).WithHint("fix the file; `tunctl config check` checks it")
	case len(config.Sessions) == 0 && len(r.byName) == 0:
		return nil, api.Errorf(api.CodeConfig, "no sessions in %s", config.Path).
			WithHint("`tunctl init` creates one; `tunctl config edit` starts from an example")
	}
	names := lists.Map(config.Sessions, func(s configs.Session) string { return s.Name })
	for _, n := range slices.Sorted(maps.Keys(r.byName)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return nil, api.Errorf(api.CodeUnknownSession, "no session %q in %s", name, config.Path).
		WithHint("%s", cmp.Or(suggest.Hint(name, names), "`tunctl init` adds one"))
}

func (r *Registry) addLocked(cfg configs.Session, from origin) *Session {
	s := newSession(r.Parts, cfg, from)
	r.byName[s.Name] = s
	return s
}

// restoreLocked creates a remembered session that is in no config.
func (r *Registry) restoreLocked(name string) (*Session, bool) {
	rec := r.Store.Session(name)
	switch {
	case rec.Attached == "" && !rec.Submissions.AnyLive():
		return nil, false
	case rec.Attached == "":
		return r.addLocked(r.attachedConfig(name, rec.Submissions[0].Host), orphaned), true
	case rec.Of != "":
		if cfg, configured := r.Settings.Config().Session(rec.Of); configured {
			return r.addLocked(secondConfig(cfg, name), second), true
		}
	case len(rec.Forwards) > 0:
		return r.addLocked(configs.Session{Name: name, Host: rec.Attached, Forward: r.savedForwards(name, rec.Forwards)}, adhoc), true
	}
	return r.addLocked(r.attachedConfig(name, rec.Attached), attached), true
}

// keep lists a session that was just removed.
func (r *Registry) keep(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, listed := r.byName[s.Name]; !listed {
		r.byName[s.Name] = s
	}
}

// Live are the sessions that were up since the agent started, by name. The lock of a
// session is never taken under the registry's.
func (r *Registry) Live() []*Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.byName), func(x, y *Session) int { return strings.Compare(x.Name, y.Name) })
}

// isReplaced reports whether another session has the name of one that was dropped.
func (r *Registry) isReplaced(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.byName[s.Name]
	return ok && now != s
}

// isRemoved reports whether the config had the session, and has it no longer.
func (r *Registry) isRemoved(s *Session) bool {
	_, configured := r.Settings.Config().Session(s.Name)
	return !configured && (s.origin == fromConfig || s.origin == orphaned)
}

// removedError is the error for an up of a session whose section of the config is gone; nil if
// it is not.
func (r *Registry) removedError(s *Session) error {
	base := cmp.Or(r.Store.Session(s.Name).Of, s.Name)
	if _, configured := r.Settings.Config().Session(base); configured || base == s.Name && !r.isRemoved(s) {
		return nil
	}
	e := api.Errorf(api.CodeUnknownSession, "session %q is no longer in %s", base, r.Settings.Config().Path).
		WithHint("`tunctl config edit` opens the file")
	if now := s.Status(); facts.IsLive(now.Job) {
		e.Hint = fmt.Sprintf("its job %s may still run: `tunctl attach %s %s` opens it, `tunctl down %s --cancel` ends it", now.Job.ID, now.Host, now.Job.Ref(), s.Name)
	}
	return e
}

// DropUnconfigured drops a session that was taken down and is not in the config, and
// reports whether it did.
func (r *Registry) DropUnconfigured(s *Session) bool {
	_, configured := r.Settings.Config().Session(s.Name)
	mayRun := func(x state.Submission) bool { return (x.Tag != "" || x.Cancel) && x.Live() } // tunctl has started its job, or is to end it
	switch {
	case configured && s.origin == orphaned:
		r.unregister(s) // it has a section again, which the next request uses
		return false
	case slices.ContainsFunc(r.Store.Session(s.Name).Submissions, mayRun):
		return false
	case s.origin != fromConfig && s.origin != orphaned:
		r.Forget(s)
		return true
	case configured:
		return false
	}
	r.unregister(s) // the state file keeps it: its job is found again if the config has it again
	return true
}

// dropIfDown is dropUnconfigured for a session that is down, unless it is just being brought up
// or taken down.
func (r *Registry) dropIfDown(s *Session) {
	if s.acting.TryLock() {
		defer s.acting.Unlock()
		r.dropIfDownLocked(s)
	}
}

func (r *Registry) dropIfDownLocked(s *Session) {
	if s.Status().State == api.SessionDown {
		r.DropUnconfigured(s)
	}
}

// Forget drops a session that is in no config, and what is remembered of it.
func (r *Registry) Forget(s *Session) {
	r.unregister(s) // first: without its record it is shown as down
	if err := r.Store.Drop(s.Name); err != nil {
		r.Log.Error("cannot remove the session", "session", s.Name, "err", err)
	}
}

// unregister removes a session that is down from the list, and publishes that unless
// the config has it.
func (r *Registry) unregister(s *Session) {
	r.mu.Lock()
	_, configured := r.Settings.Config().Session(s.Name)
	delete(r.byName, s.Name)
	r.mu.Unlock()
	if configured {
		return // saved meanwhile: it is down, but still exists
	}
	r.Kept.Release(s.Name)
	gone := s.Status()
	r.Hub.Publish(api.Event{Type: api.EventSessionGone, Session: &gone})
}

// Section is the name of a session's section in the config. A section of the session's own
// name may have been added since it was a second one of another.
func (r *Registry) Section(name string) string {
	if _, own := r.Settings.Config().Session(name); own {
		return name
	}
	return cmp.Or(r.Store.Session(name).Of, name)
}

// Second is a session from the same section of the config as another, with its own job, local
// ports and record. Its down forgets it.
func (r *Registry) Second(first *Session, name string) (*Session, error) {
	base := cmp.Or(first.Of, first.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, configured := r.Settings.Config().Session(base)
	switch {
	case !configured:
		return nil, api.Errorf(api.CodeUsage, "session %s is not in the config, so there is nothing to start a second time", base)
	case cfg.Submit == "":
		return nil, api.Errorf(api.CodeUsage, "tunctl submits no job for session %s, so it cannot start a second one", base).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, base)
	case !configs.ValidSessionName(name):
		return nil, api.Errorf(api.CodeUsage, "%q is not a valid name for a session", name).
			WithHint("use letters, digits, '_', '-' and '.'; begin with a letter or digit")
	case cfg.Log != "" && !configs.LogDiffers(cfg.Log):
		return nil, api.Errorf(api.CodeUsage, "both jobs would write to the same log: %s", cfg.Log).
			WithHint("write {id} or {name} in log of [session.%s]", base)
	}
	rec := r.Store.Session(name)
	_, configured = r.Settings.Config().Session(name)
	s, live := r.byName[name]
	other, same := r.sameJobLocked(name, cfg.Host)
	var taken *api.Error
	switch {
	case live && s.Of == base:
		return s, nil
	case live, configured, rec.Of == "" && rec.Attached != "", rec.Of != base && rec.Submissions.AnyLive():
		taken = api.Errorf(api.CodeUsage, "session %q already exists", name)
	case same:
		taken = api.Errorf(api.CodeUsage, "session %s would take the job of %s for its own: their jobs would have the same name", other, name)
	}
	if taken != nil {
		return nil, taken.WithHint("choose another name: --as %s", r.freeNameLocked(base))
	}
	if rec.Of != base {
		err := r.Store.Update(name, func(rec *state.Session) { *rec = state.Session{Of: base, Attached: cfg.Host, Port: rec.Port} })
		if err != nil {
			return nil, err
		}
	}
	return r.addLocked(secondConfig(cfg, name), second), nil
}

// secondConfig are the settings of a second session: the job has another name, and nothing
// listens where the first session does.
func secondConfig(cfg configs.Session, name string) configs.Session {
	cfg.Name, cfg.Job, cfg.Local = name, name, 0
	cfg.Forward = slices.Clone(cfg.Forward)
	for i, f := range cfg.Forward {
		if host, _, err := net.SplitHostPort(f.Listen); err == nil && f.Kind != api.ForwardRemote {
			cfg.Forward[i].Listen = net.JoinHostPort(host, "0")
		}
	}
	return cfg
}

// freeName is a name for a second session of base.
func (r *Registry) freeName(base string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeNameLocked(base)
}

func (r *Registry) freeNameLocked(base string) string {
	cfg, _ := r.Settings.Config().Session(base)
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s%d", base, n)
		if configs.SameJobName(base, name) { // schedulers that shorten names keep a number after a dash
			name = fmt.Sprintf("%s-%d", base, n)
		}
		_, configured := r.Settings.Config().Session(name)
		_, live := r.byName[name]
		_, same := r.sameJobLocked(name, cfg.Host)
		if rec := r.Store.Session(name); !configured && !live && !same && rec.Attached == "" && !rec.Submissions.AnyLive() {
			return name
		}
	}
}

// sameJobLocked is the session that a second session's job would have the same name for, if
// there is one: it finds its job by its name.
func (r *Registry) sameJobLocked(name, host string) (other string, same bool) {
	for _, s := range r.Settings.Config().Sessions {
		if s.Host == host && s.Job != "" && configs.SameJobName(s.Job, name) {
			return s.Name, true
		}
	}
	for _, s := range r.byName {
		if s.Of != "" && s.Name != name && configs.SameJobName(s.Name, name) {
			return s.Name, true
		}
	}
	return "", false
}

// Adhoc is the session with these forwards: an existing one, or a new one.
func (r *Registry) Adhoc(host string, specs []configs.ForwardSpec) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := lists.Map(specs, configs.ForwardSpec.String)
	base := adhocName(host, specs[0])
	name := base
	for n := 2; ; n++ {
		rec := r.Store.Session(name)
		s, live := r.byName[name]
		if live && s.origin == adhoc && rec.Attached == host && slices.Equal(rec.Forwards, texts) {
			return s, nil
		}
		if _, configured := r.Settings.Config().Session(name); !live && !configured && !rec.Wanted {
			break
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := r.Store.Update(name, func(rec *state.Session) { *rec = state.Session{Attached: host, Forwards: texts} }); err != nil {
		return nil, err
	}
	return r.addLocked(configs.Session{Name: name, Host: host, Forward: specs}, adhoc), nil
}

// adhocName names a session after its host and where its first forward listens, as in
// narval-5432, or where it leads if it listens on any free port.
func adhocName(host string, first configs.ForwardSpec) string {
	end := first.Listen
	if first.PicksPort() && first.Target != "" {
		end = first.Target
	}
	_, port, err := net.SplitHostPort(end)
	if err != nil {
		port = strings.TrimSuffix(path.Base(end), ".sock")
	}
	return attachedName(host, port)
}

// savedForwards parses the remembered forwards of a session.
func (r *Registry) savedForwards(session string, texts []string) []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, text := range texts {
		spec, err := configs.ParseForward(text)
		if err != nil {
			r.Log.Error("cannot read a saved forward", "session", session, "err", err)
			continue
		}
		specs = append(specs, spec)
	}
	return specs
}

// Attach creates the session of a job that is not in the config.
func (r *Registry) Attach(req api.AttachRequest, job api.Job) (*Session, error) {
	name := cmp.Or(req.Name, attachedName(req.Host, job.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	_, configured := r.Settings.Config().Session(name)
	rec := r.Store.Session(name)
	known := rec.Attached != "" && rec.Submissions.Of(job).Job != nil
	s, live := r.byName[name]
	switch {
	case live && known:
		return s, nil
	case live || configured:
		return nil, api.Errorf(api.CodeUsage, "session %q already exists", name).WithHint("choose another name with --save")
	}
	err := r.Store.Update(name, func(rec *state.Session) {
		*rec = state.Session{Attached: req.Host, Port: rec.Port, Submissions: state.Submissions{{Role: state.RoleJob, Job: &job, Host: req.Host}}}
	})
	if err != nil {
		return nil, err
	}
	return r.addLocked(r.attachedConfig(name, req.Host), attached), nil
}

// attachedConfig are the settings of a session for a job that is not in the config.
func (r *Registry) attachedConfig(name, host string) configs.Session {
	return configs.Session{Name: name, Host: host, App: r.AttachedApp, Reach: api.ReachAuto, Open: true}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// attachedName names a session after its host and its job, as in narval-48213.
func attachedName(host, id string) string {
	number, _, _ := strings.Cut(id, ".") // PBS adds its server's name
	return strings.Trim(notInNames.ReplaceAllString(host+"-"+number, "-"), "-")
}

// Restore brings up what was up when the last agent stopped, and connects to the hosts of jobs that a
// user wants ended, unless the agent is paused.
// It submits nothing.
func (r *Registry) Restore() {
	for _, s := range r.Saved() {
		pause, rec := r.Paused(), r.Store.Session(s.Name)
		switch {
		case s.InProgress(): // the user was first
		case rec.Failure != nil && !rec.Submissions.AnyLive() && s.Config().Submit != "": // a new attempt could only say that there is no job
			s.Change(func(f *facts.Facts) { f.Started, f.Looking = true, false })
		case pause != nil:
			s.Change(func(f *facts.Facts) { f.Started, f.Looking, f.Paused = true, false, pausedError(pause, s.Name) })
		default:
			_, _ = s.start(request{who: byAgent, downs: s.Downs()}) // an error says that it was taken down meanwhile
		}
	}
	for _, name := range r.Store.Unsettled() {
		for _, sub := range r.Store.Session(name).Submissions {
			if sub.Cancel && r.Paused() == nil {
				r.Hosts.Pool.Host(sub.Host).Want() // to end a job saves its cost
			}
		}
	}
}

// RestoreJobs lists the sessions with jobs that may wait or run, also those that the config no
// longer has, and records that submit commands of the last agent were lost.
func (r *Registry) RestoreJobs() {
	for _, name := range r.Store.Live() {
		s, err := r.Find(name) // which lists it
		if err != nil {
			continue
		}
		host := s.Host()
		_ = s.record(func(rec *state.Session) { rec.Submissions = rec.Submissions.Restarted(host, time.Now()) })
	}
}

// Saved are the sessions that were up when the last agent stopped.
func (r *Registry) Saved() []*Session {
	var all []*Session
	for _, name := range r.Store.Wanted() {
		s, err := r.Find(name)
		if err != nil || r.isRemoved(s) {
			r.Log.Warn("a saved session is no longer in the config", "session", name)
			continue
		}
		all = append(all, s)
	}
	return all
}

// Resume ends a pause: the user has asked for something. It restores the other sessions.
func (r *Registry) Resume() {
	if r.pause.Swap(nil) == nil {
		return
	}
	r.Log.Info("a person ended the pause after crashes")
	r.Restore()
	r.Hub.Publish(api.Event{Type: api.EventStatus})
}

// HostChanged updates the sessions of a host, and what is asked about their jobs once it is connected.
func (r *Registry) HostChanged(h api.Host) {
	for _, s := range r.Live() {
		if s.Host() == h.Alias {
			s.Change(func(f *facts.Facts) { f.Host = h })
		}
	}
	if h.State != api.HostUp {
		return
	}
	r.ObserveAll()
	latest.Signal(r.unsettled)
	if r.Store.Incomplete(h.Alias) {
		r.Work.Go(func() {
			if err := r.RecoverJobs(r.Ctx, h.Alias); err != nil { // the next connection tries again
				r.Log.Warn("cannot look for jobs", "host", h.Alias, "err", err)
			}
		})
	}
}

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
	sessions := lists.Map(cfg.Sessions, func(c configs.Session) api.Session { return lastKnown(c, store.Session(c.Name), now) })
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
	s.Cells = f.Cells(nil, now)
	return s
}

// All are all sessions: those of the config, in its order, and then others that are up or whose job may
// still run.
func (r *Registry) All() []api.Session {
	all := knownSessions(r.Settings.Config(), r.Store, time.Now())
	places := make(map[string]int, len(all))
	for i, x := range all {
		places[x.Name] = i
	}
	for _, s := range r.Live() {
		now := s.Status()
		if r.isRemoved(s) {
			now = withUnconfiguredHint(now)
		}
		if i, known := places[s.Name]; known {
			all[i] = now
		} else {
			all = append(all, now)
		}
	}
	return all
}
