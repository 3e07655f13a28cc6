package session

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

// HoldPort opens the listeners of a session that was up in the last agent, before its
// first attempt. Those of the ssh config take a run of ssh, and are left to the attempt.
func (s *Session) HoldPort() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasJobLocked() && s.cfg.ForwardSSHConfig {
		return nil
	}
	rec := s.Saved()
	s.facts = facts.Facts{
		Name: s.Name, Saved: rec, Started: true, Looking: s.hasJobLocked(), NeedsJob: s.hasJobLocked(), Served: rec.Current().Served,
		Host: api.Host{Alias: s.cfg.Host, State: api.HostConnecting},
	}
	return s.listenLocked(s.cfg.Forward)
}

// UseForwards has a session that is down use forwards that are open already.
func (s *Session) UseForwards(open *forwards.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages.forwards, s.pages.host = open, s.cfg.Host
}

func (s *Session) listenLocked(specs []configs.ForwardSpec) error {
	if s.pages.forwards != nil {
		return nil
	}
	rec := s.Saved()
	var list []*forwards.Forward
	if s.hasPageLocked() {
		list = append(list, &forwards.Forward{IsPage: true})
		for _, name := range rec.Opened {
			list = append(list, &forwards.Forward{IsPage: true, Page: name})
		}
	}
	for _, spec := range specs {
		list = append(list, &forwards.Forward{Spec: spec})
	}
	for _, spec := range s.parts.Sessions.savedForwards(s.Name, rec.Added) {
		if !slices.Contains(specs, spec) { // else it is in the config since
			list = append(list, &forwards.Forward{Spec: spec, Added: true})
		}
	}
	open := forwards.New(s.parts.Ctx) // not of the attempt: they stay open after it
	if err := open.Open(list, s.forwardOptionsLocked()); err != nil {
		open.Close()
		return err
	}
	s.pages.forwards, s.pages.host = open, s.cfg.Host
	s.enterLocked()
	return nil
}

// forwardOptionsLocked are the session's settings for forwards that are opened now.
func (s *Session) forwardOptionsLocked() forwards.Options {
	rec := s.Saved()
	return forwards.Options{
		ListenOptions: forward.ListenOptions{
			Name: s.Name, Port: s.cfg.Local, Shared: s.cfg.Shared, Hosts: s.cfg.AllowHosts, Dashboard: s.parts.Dashboard, Log: s.parts.Log,
			LocalToken: func() string { return s.Saved().LocalToken },
			Waiting:    func(person bool) { s.parts.Hosts.Pool.Host(s.Host()).Waiting(person) },
		},
		Last:    forwards.Ports{Page: rec.Port, Picked: rec.Ports},
		Listen:  s.parts.Hosts.Pool.Host(s.cfg.Host).Listen,
		Kept:    &s.parts.Kept,
		Changed: func() { s.Change(func(*facts.Facts) {}) },
	}
}

// fixedSpecs are the forwards of a session's config.
func fixedSpecs(ctx context.Context, pool *tunnel.Pool, cfg configs.Session) ([]configs.ForwardSpec, error) {
	if cfg.ForwardSSHConfig {
		settings, err := pool.Settings(ctx, cfg.Host)
		if err != nil {
			return nil, err
		}
		return forwards.FromSSHConfig(cfg.Host, settings)
	}
	return cfg.Forward, nil
}

// targetsLocked decides what the forwards lead to. The main page is open over its proven route
// once the session is ready; the other forwards of a session with a job lead to the job's node
// while it runs, those of a session without one through the host.
func (s *Session) targetsLocked(ready bool) forwards.Targets {
	to := forwards.Targets{Connected: s.facts.Wanted() && s.facts.Host.State == api.HostUp, Announced: ready}
	if ready && s.facts.Link == "" && s.pages.route != nil {
		to.Main = s.pages.route.Target()
	}
	switch {
	case s.hasJobLocked() && s.facts.JobRuns():
		to.Pages = s.pages.targets()
		to.Fixed = nodeDialer{session: s, job: s.facts.Job().Ref(), node: s.facts.Job().Node, restarts: s.facts.Job().Restarts}
	case !s.hasJobLocked() && ready:
		to.Fixed = s.parts.Hosts.Pool.Host(s.cfg.Host)
	}
	return to
}

// nodeDialer dials for the forwards of a session with a job, as the node does that one
// run of the job is on.
type nodeDialer struct {
	session   *Session
	job, node string
	restarts  int
}

// Dial implements forward.Dialer. Clients wait while the job ends or moves: its next state
// withdraws the forward.
func (d nodeDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	node, err := d.session.Machine(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrDown, err)
	}
	return node.Dial(ctx, network, address)
}

// ChangeForwards adds forwards to the session's own, or removes added ones. The list is nil if
// nothing has changed.
func (s *Session) ChangeForwards(specs []configs.ForwardSpec, remove bool) (list []api.Forward, err error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	s.mu.Lock()
	if remove {
		list, err = s.removeForwardsLocked(specs)
	} else {
		list, err = s.addForwardsLocked(specs)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	added := lists.Map(s.pages.forwards.Specs(true), configs.ForwardSpec.String)
	ports := s.pages.forwards.Ports()
	s.mu.Unlock()
	return list, s.record(func(r *state.Session) {
		r.Added = added
		r.KeepPorts(ports.Page, ports.Picked)
	})
}

// addForwardsLocked opens forwards to the node of the session's job, all or none. Those that
// exist already stay as they are.
func (s *Session) addForwardsLocked(specs []configs.ForwardSpec) ([]api.Forward, error) {
	switch {
	case !s.hasJobLocked():
		return nil, api.Errorf(api.CodeUsage, "session %s has no job", s.Name).
			WithHint("`tunctl forward %s …` forwards through its host", s.cfg.Host)
	case s.attempt == nil || s.pages.forwards == nil:
		return nil, s.notRunningLocked()
	}
	var add []*forwards.Forward
	for i, spec := range specs {
		if spec.Kind == api.ForwardRemote {
			return nil, api.Errorf(api.CodeUsage, "%s would listen on the login node, and not on that of the job", spec).
				WithHint("`tunctl forward %s %s` listens on the login node", s.cfg.Host, spec)
		}
		if s.pages.forwards.To(spec) == nil && !slices.Contains(specs[:i], spec) {
			add = append(add, &forwards.Forward{Spec: spec, Added: true})
		}
	}
	if err := s.pages.forwards.Open(add, s.forwardOptionsLocked()); err != nil {
		return nil, err
	}
	s.enterLocked()
	return lists.Map(specs, func(spec configs.ForwardSpec) api.Forward { return s.pages.forwards.To(spec).Status() }), nil
}

// removeForwardsLocked ends forwards that were added, all or none. A spec may have another
// port here than the one that it asked for.
func (s *Session) removeForwardsLocked(specs []configs.ForwardSpec) ([]api.Forward, error) {
	if s.pages.forwards == nil {
		return nil, api.Errorf(api.CodeNotReady, "session %s is down and forwards nothing", s.Name)
	}
	for _, spec := range specs {
		if x := s.pages.forwards.To(spec); x == nil || !x.Added {
			what := cmp.Or(strings.Replace(spec.Target, "localhost:", "port ", 1), spec.String())
			if x != nil {
				return nil, api.Errorf(api.CodeUsage, "%s is forwarded by the config of session %s", what, s.Name).WithHint("`tunctl config edit` opens the config: remove it there")
			}
			return nil, api.Errorf(api.CodeUsage, "%s is not forwarded to session %s", what, s.Name)
		}
	}
	return s.pages.forwards.Remove(specs), nil
}

// CloseForwards ends what the sessions listen on, as the agent stops: the next one needs their ports.
func (r *Registry) CloseForwards() {
	var closing sync.WaitGroup
	for _, s := range r.Live() {
		s.mu.Lock()
		open := s.pages.forwards
		s.mu.Unlock()
		closing.Go(open.Close)
	}
	closing.Wait()
}

// listen opens the session's listeners, once.
func (r *attempt) listen(ctx context.Context) error {
	specs, err := fixedSpecs(ctx, r.parts.Hosts.Pool, r.Config())
	if err != nil {
		return err
	}
	r.closeOutdated(specs)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt == nil {
		return context.Canceled // taken down meanwhile: nobody would close them
	}
	return r.listenLocked(specs)
}

// closeOutdated closes the listeners of an earlier attempt if the config has other
// forwards or another host since, or has given the session a page or taken it away.
func (r *attempt) closeOutdated(specs []configs.ForwardSpec) {
	r.mu.Lock()
	open := r.pages.forwards
	outdated := open != nil && (r.pages.host != r.cfg.Host || (open.OfPage("") != nil) != r.hasPageLocked() || !slices.Equal(open.Specs(false), specs))
	if outdated {
		r.pages.forwards = nil
	}
	r.mu.Unlock()
	if outdated {
		open.Close()
	}
}

// keepPorts remembers the local ports that were picked, for the next up, and publishes a
// notice for each port that is not the wanted one.
func (r *attempt) keepPorts() {
	r.mu.Lock()
	open := r.pages.forwards
	r.mu.Unlock()
	for _, f := range open.Status() {
		if f.Note != "" {
			r.parts.Hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: r.Name, Text: f.Note}})
		}
	}
	if open != nil { // else it was taken down meanwhile
		ports := open.Ports()
		_ = r.record(func(r *state.Session) { r.KeepPorts(ports.Page, ports.Picked) })
	}
}

// dropFailed drops forwards that never came up: the user knows why, and nothing tries
// them again.
func (r *attempt) dropFailed() {
	if r.origin != adhoc || r.parts.Ctx.Err() != nil {
		return
	}
	r.acting.Lock()
	defer r.acting.Unlock()
	r.mu.Lock()
	failed := r.attempt == nil && r.current.State == api.SessionFailed && !r.facts.Served && r.who == byPerson
	open := r.pages.forwards
	if failed {
		r.pages.forwards = nil
	}
	r.mu.Unlock()
	if failed {
		open.Close()
		r.parts.Sessions.Forget(r.Session)
	}
}
