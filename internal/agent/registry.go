package agent

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
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// registry has the sessions by name, whatever they come from: their section of the config, another
// session's, a job that was started by hand, forwards of no config, or what is remembered. Only here
// a name becomes a session.
type registry struct {
	*shared

	pause  pause // of what is restored
	mu     sync.Mutex
	byName map[string]*session // that were up since the agent started
}

func newRegistry(a *shared) *registry { return &registry{shared: a, byName: map[string]*session{}} }

// find returns the session of that name. One that is not known yet is created from
// the config, or from what is remembered.
func (r *registry) find(name string) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := r.settings.Config()
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
	problem := r.settings.Problem()
	switch {
	case problem != nil:
		return nil, api.Errorf(api.CodeConfig, "%s", problem.Message).
			WithHint("fix the file; `tunctl config check` checks it")
	case len(config.Sessions) == 0 && len(r.byName) == 0:
		return nil, api.Errorf(api.CodeConfig, "no sessions in %s", config.Path).
			WithHint("`tunctl init` creates one; `tunctl config edit` starts from an example")
	}
	names := make([]string, 0, len(config.Sessions))
	for _, s := range config.Sessions {
		names = append(names, s.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(r.byName)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return nil, api.Errorf(api.CodeUnknownSession, "no session %q in %s", name, config.Path).
		WithHint("%s", cmp.Or(suggest.Hint(name, names), "`tunctl init` adds one"))
}

func (r *registry) addLocked(cfg configs.Session, from origin) *session {
	return r.addOfLocked(cfg, from, "")
}

func (r *registry) addOfLocked(cfg configs.Session, from origin, of string) *session {
	s := newSession(r.shared, cfg, from, of)
	r.byName[s.name] = s
	return s
}

// restoreLocked creates a remembered session that is in no config.
func (r *registry) restoreLocked(name string) (*session, bool) {
	rec := r.store.Session(name)
	switch {
	case rec.Attached == "" && !rec.Submissions.AnyLive():
		return nil, false
	case rec.Attached == "":
		return r.addLocked(attachedConfig(name, rec.Submissions[0].Host), orphaned), true
	case rec.Of != "":
		if cfg, configured := r.settings.Config().Session(rec.Of); configured {
			return r.addSecondLocked(name, cfg), true
		}
	case len(rec.Forwards) > 0:
		return r.addLocked(configs.Session{Name: name, Host: rec.Attached, Forward: r.savedForwards(name, rec.Forwards)}, adhoc), true
	}
	return r.addLocked(attachedConfig(name, rec.Attached), attached), true
}

// keep lists a session that was just removed.
func (r *registry) keep(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, listed := r.byName[s.name]; !listed {
		r.byName[s.name] = s
	}
}

// live are the sessions that were up since the agent started, by name. The lock of a
// session is never taken under the registry's.
func (r *registry) live() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.byName), func(x, y *session) int { return strings.Compare(x.name, y.name) })
}

// isReplaced reports whether another session has the name of one that was dropped.
func (r *registry) isReplaced(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, ok := r.byName[s.name]
	return ok && now != s
}

// isRemoved reports whether the config had the session, and has it no longer.
func (r *registry) isRemoved(s *session) bool {
	_, configured := r.settings.Config().Session(s.name)
	return !configured && (s.origin == fromConfig || s.origin == orphaned)
}

// removedError is the error for an up of a session whose section of the config is gone; nil if
// it is not.
func (r *registry) removedError(s *session) error {
	base := cmp.Or(r.store.Session(s.name).Of, s.name)
	if _, configured := r.settings.Config().Session(base); configured || base == s.name && !r.isRemoved(s) {
		return nil
	}
	e := api.Errorf(api.CodeUnknownSession, "session %q is no longer in %s", base, r.settings.Config().Path).
		WithHint("`tunctl config edit` opens the file")
	if now := s.Status(); facts.IsLive(now.Job) {
		e.Hint = fmt.Sprintf("its job %s may still run: `tunctl attach %s %s` opens it, `tunctl down %s --cancel` ends it", now.Job.ID, now.Host, now.Job.Ref(), s.name)
	}
	return e
}

// dropUnconfigured drops a session that was taken down and is not in the config, and
// reports whether it did.
func (r *registry) dropUnconfigured(s *session) bool {
	_, configured := r.settings.Config().Session(s.name)
	mayRun := func(x state.Submission) bool { return (x.Tag != "" || x.Cancel) && x.Live() } // tunctl has started its job, or is to end it
	switch {
	case configured && s.origin == orphaned:
		r.unregister(s) // it has a section again, which the next request uses
		return false
	case slices.ContainsFunc(r.store.Session(s.name).Submissions, mayRun):
		return false
	case s.origin != fromConfig && s.origin != orphaned:
		r.forget(s)
		return true
	case configured:
		return false
	}
	r.unregister(s) // the state file keeps it: its job is found again if the config has it again
	return true
}

// dropIfDown is dropUnconfigured for a session that is down, unless it is just being brought up
// or taken down.
func (r *registry) dropIfDown(s *session) {
	if s.acting.TryLock() {
		defer s.acting.Unlock()
		r.dropIfDownLocked(s)
	}
}

func (r *registry) dropIfDownLocked(s *session) {
	if s.Status().State == api.SessionDown {
		r.dropUnconfigured(s)
	}
}

// forget drops a session that is in no config, and what is remembered of it.
func (r *registry) forget(s *session) {
	r.unregister(s) // first: without its record it is shown as down
	if err := r.store.Drop(s.name); err != nil {
		r.log.Error("cannot remove the session", "session", s.name, "err", err)
	}
}

// unregister removes a session that is down from the list, and publishes that unless
// the config has it.
func (r *registry) unregister(s *session) {
	r.mu.Lock()
	_, configured := r.settings.Config().Session(s.name)
	delete(r.byName, s.name)
	r.mu.Unlock()
	if configured {
		return // saved meanwhile: it is down, but still exists
	}
	r.kept.Release(s.name)
	gone := s.Status()
	r.hub.Publish(api.Event{Type: api.EventSessionGone, Session: &gone})
}

// section is the name of a session's section in the config. A section of the session's own
// name may have been added since it was a second one of another.
func (r *registry) section(name string) string {
	if _, own := r.settings.Config().Session(name); own {
		return name
	}
	return cmp.Or(r.store.Session(name).Of, name)
}

// second is a session from the same section of the config as another, with its own job, local
// ports and record. Its down forgets it.
func (r *registry) second(first *session, name string) (*session, error) {
	base := cmp.Or(first.of, first.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, configured := r.settings.Config().Session(base)
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
	rec := r.store.Session(name)
	_, configured = r.settings.Config().Session(name)
	s, live := r.byName[name]
	other, same := r.sameJobLocked(name, cfg.Host)
	var taken *api.Error
	switch {
	case live && s.of == base:
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
		err := r.store.Update(name, func(rec *state.Session) { *rec = state.Session{Of: base, Attached: cfg.Host, Port: rec.Port} })
		if err != nil {
			return nil, err
		}
	}
	return r.addSecondLocked(name, cfg), nil
}

func (r *registry) addSecondLocked(name string, base configs.Session) *session {
	return r.addOfLocked(secondConfig(base, name), second, base.Name)
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
func (r *registry) freeName(base string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeNameLocked(base)
}

func (r *registry) freeNameLocked(base string) string {
	cfg, _ := r.settings.Config().Session(base)
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s%d", base, n)
		if configs.SameJobName(base, name) { // schedulers that shorten names keep a number after a dash
			name = fmt.Sprintf("%s-%d", base, n)
		}
		_, configured := r.settings.Config().Session(name)
		_, live := r.byName[name]
		_, same := r.sameJobLocked(name, cfg.Host)
		if rec := r.store.Session(name); !configured && !live && !same && rec.Attached == "" && !rec.Submissions.AnyLive() {
			return name
		}
	}
}

// sameJobLocked is the session that a second session's job would have the same name for, if
// there is one: it finds its job by its name.
func (r *registry) sameJobLocked(name, host string) (other string, same bool) {
	for _, s := range r.settings.Config().Sessions {
		if s.Host == host && s.Job != "" && configs.SameJobName(s.Job, name) {
			return s.Name, true
		}
	}
	for _, s := range r.byName {
		if s.of != "" && s.name != name && configs.SameJobName(s.name, name) {
			return s.name, true
		}
	}
	return "", false
}

// adhoc is the session with these forwards: an existing one, or a new one.
func (r *registry) adhoc(host string, specs []configs.ForwardSpec) (*session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := specTexts(specs)
	base := adhocName(host, specs[0])
	name := base
	for n := 2; ; n++ {
		rec := r.store.Session(name)
		s, live := r.byName[name]
		if live && s.origin == adhoc && rec.Attached == host && slices.Equal(rec.Forwards, texts) {
			return s, nil
		}
		if _, configured := r.settings.Config().Session(name); !live && !configured && !rec.Wanted {
			break
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := r.store.Update(name, func(rec *state.Session) { *rec = state.Session{Attached: host, Forwards: texts} }); err != nil {
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
func (r *registry) savedForwards(session string, texts []string) []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, text := range texts {
		spec, err := configs.ParseForward(text)
		if err != nil {
			r.log.Error("cannot read a saved forward", "session", session, "err", err)
			continue
		}
		specs = append(specs, spec)
	}
	return specs
}

// attach creates the session of a job that is not in the config.
func (r *registry) attach(req api.AttachRequest, job api.Job) (*session, error) {
	name := cmp.Or(req.Name, attachedName(req.Host, job.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	_, configured := r.settings.Config().Session(name)
	rec := r.store.Session(name)
	known := rec.Attached != "" && rec.Submissions.Of(job).Job != nil
	s, live := r.byName[name]
	switch {
	case live && known:
		return s, nil
	case live || configured:
		return nil, api.Errorf(api.CodeUsage, "session %q already exists", name).
			WithHint("choose another name with --save")
	}
	err := r.store.Update(name, func(rec *state.Session) {
		*rec = state.Session{Attached: req.Host, Port: rec.Port, Submissions: state.Submissions{{Role: state.RoleJob, Job: &job, Host: req.Host}}}
	})
	if err != nil {
		return nil, err
	}
	return r.addLocked(attachedConfig(name, req.Host), attached), nil
}

// attachedConfig are the settings of a session for a job that is not in the config.
func attachedConfig(name, host string) configs.Session {
	return configs.Session{Name: name, Host: host, Reach: api.ReachAuto, Open: true}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// attachedName names a session after its host and its job, as in narval-48213.
func attachedName(host, id string) string {
	number, _, _ := strings.Cut(id, ".") // PBS adds its server's name
	return strings.Trim(notInNames.ReplaceAllString(host+"-"+number, "-"), "-")
}

// restore brings up what was up when the last agent stopped, and connects to the hosts of jobs that a
// person wants ended, unless the agent is paused.
// It submits nothing.
func (r *registry) restore() {
	for _, s := range r.saved() {
		why, rec := r.pause.errorFor(s.name), r.store.Session(s.name)
		switch {
		case s.InProgress(): // a person was first
		case rec.Failure != nil && !rec.Submissions.AnyLive() && s.Config().Submit != "": // a new attempt could only say that there is no job
			s.Change(func(f *facts.Facts) { f.Started, f.Looking = true, false })
		case why != nil:
			s.Change(func(f *facts.Facts) { f.Started, f.Looking, f.Paused = true, false, why })
		default:
			s.start(byAgent, false, "", "", submit.Plan{})
		}
	}
	for _, name := range r.store.Unsettled() {
		for _, sub := range r.store.Session(name).Submissions {
			if sub.Cancel && r.pause.why() == nil {
				r.pool.Host(sub.Host).Want() // to end a job saves its cost
			}
		}
	}
}

// restoreJobs lists the sessions with jobs that may wait or run, also those that the config no
// longer has, and records that submit commands of the last agent were lost.
func (r *registry) restoreJobs() {
	for _, name := range r.store.Live() {
		s, err := r.find(name) // which lists it
		if err != nil {
			continue
		}
		host := s.host()
		_ = s.record(func(rec *state.Session) { rec.Submissions = rec.Submissions.Restarted(host, time.Now()) })
	}
}

// saved are the sessions that were up when the last agent stopped.
func (r *registry) saved() []*session {
	var all []*session
	for _, name := range r.store.Wanted() {
		s, err := r.find(name)
		if err != nil || r.isRemoved(s) {
			r.log.Warn("a saved session is no longer in the config", "session", name)
			continue
		}
		all = append(all, s)
	}
	return all
}

// resume ends a pause: a person has asked for something. It restores the other sessions.
func (r *registry) resume() {
	if !r.pause.end() {
		return
	}
	r.log.Info("a person ended the pause after crashes")
	r.restore()
	r.hub.Publish(api.Event{Type: api.EventStatus})
}
