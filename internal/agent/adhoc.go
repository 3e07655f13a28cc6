package agent

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// handleForward brings up forwards that are in no config: those through a host as a
// separate session, those of a session beside its own.
func (a *Agent) handleForward(ctx context.Context, req api.ForwardRequest) (api.ForwardResponse, error) {
	a.hosts.UseEnv(req.Env)
	specs, err := adhocSpecs(req)
	switch {
	case err != nil:
		return api.ForwardResponse{}, err
	case req.Session != "":
		return a.forwardSession(req, specs)
	}
	if err := a.hosts.Allowed(ctx, req.Host); err != nil {
		return api.ForwardResponse{}, err
	}
	s, err := a.adhoc(req.Host, specs)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	return api.ForwardResponse{UpResponse: a.startFor(ctx, s), Forwards: []api.Forward{}}, nil
}

// forwardSession adds forwards to those of a session, or removes added ones.
func (a *Agent) forwardSession(req api.ForwardRequest, specs []configs.ForwardSpec) (api.ForwardResponse, error) {
	s, err := a.session(req.Session)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	var list []api.Forward
	if req.Remove {
		list, err = s.removeForwardsLocked(specs)
	} else {
		list, err = s.addForwardsLocked(specs, rec)
	}
	if err != nil {
		s.mu.Unlock()
		return api.ForwardResponse{}, err
	}
	added := specTexts(s.pages.forwards.Specs(true))
	ports := s.pages.forwards.Ports()
	s.mu.Unlock()
	err = s.record(func(r *state.Session) {
		r.Added = added
		r.KeepPorts(ports.Page, ports.Picked)
	}, nil)
	now, at := s.status(), time.Now()
	a.hub.Publish(api.Event{Type: api.EventSession, Time: at, Session: &now})
	return api.ForwardResponse{UpResponse: api.UpResponse{Session: now, At: at}, Forwards: list}, err
}

// addForwardsLocked opens forwards to the node of the session's job, all or none. Those that
// exist already stay as they are.
func (s *session) addForwardsLocked(specs []configs.ForwardSpec, rec state.Session) ([]api.Forward, error) {
	switch {
	case !s.hasJobLocked():
		return nil, api.Errorf(api.CodeUsage, "session %s has no job", s.name).
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
	if err := s.pages.forwards.Open(add, lastPorts(rec), s.forwardOptionsLocked()); err != nil {
		return nil, err
	}
	s.enterLocked()
	list := make([]api.Forward, len(specs))
	for i, spec := range specs {
		list[i] = s.pages.forwards.To(spec).Status()
	}
	return list, nil
}

// removeForwardsLocked ends forwards that were added, all or none. A spec may have another
// port here than the one that it asked for.
func (s *session) removeForwardsLocked(specs []configs.ForwardSpec) ([]api.Forward, error) {
	if s.pages.forwards == nil {
		return nil, api.Errorf(api.CodeNotReady, "session %s is down and forwards nothing", s.name)
	}
	for _, spec := range specs {
		if x := s.pages.forwards.To(spec); x == nil || !x.Added {
			added := strings.Join(specTexts(s.pages.forwards.Specs(true)), ", ")
			return nil, api.Errorf(api.CodeUsage, "forward %s was not added to session %s", spec, s.name).
				WithHint("added: %s; those of the config are removed there", cmp.Or(added, "none"))
		}
	}
	return s.pages.forwards.Remove(specs), nil
}

// adhocSpecs parses the forwards of a request. Bind applies to those without an address.
func adhocSpecs(req api.ForwardRequest) ([]configs.ForwardSpec, error) {
	if len(req.Specs) == 0 {
		return nil, api.Errorf(api.CodeUsage, "no forward given").
			WithHint(`write "6006", "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`)
	}
	specs := make([]configs.ForwardSpec, len(req.Specs))
	for i, text := range req.Specs {
		spec, err := configs.ParseForward(text)
		if err != nil {
			return nil, err
		}
		if host, port, err := net.SplitHostPort(spec.Listen); err == nil && req.Bind != "" && host == "127.0.0.1" && spec.Kind != api.ForwardRemote {
			spec.Listen = net.JoinHostPort(strings.TrimPrefix(req.Bind, "*"), port)
		}
		specs[i] = spec
	}
	return specs, nil
}

// savedForwards parses the remembered forwards of a session.
func (a *Agent) savedForwards(session string, texts []string) []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, text := range texts {
		spec, err := configs.ParseForward(text)
		if err != nil {
			a.log.Error("cannot read a saved forward", "session", session, "err", err)
			continue
		}
		specs = append(specs, spec)
	}
	return specs
}

func specTexts(specs []configs.ForwardSpec) []string {
	var texts []string
	for _, s := range specs {
		texts = append(texts, s.String())
	}
	return texts
}

// adhoc is the session with these forwards: an existing one, or a new one.
func (a *Agent) adhoc(host string, specs []configs.ForwardSpec) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	texts := specTexts(specs)
	base := adhocName(host, specs[0])
	name := base
	for n := 2; ; n++ {
		rec := a.store.Session(name)
		s, live := a.sessions[name]
		if live && s.origin == adhoc && rec.Attached == host && slices.Equal(rec.Forwards, texts) {
			return s, nil
		}
		if _, configured := a.settings.Config().Session(name); !live && !configured && !rec.Wanted {
			break
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := a.store.Update(name, func(r *state.Session) { *r = state.Session{Attached: host, Forwards: texts} }); err != nil {
		return nil, err
	}
	return a.addLocked(configs.Session{Name: name, Host: host, Forward: specs}, adhoc), nil
}

// dropFailed drops forwards that never came up: the person knows why, and nothing tries
// them again.
func (s *session) dropFailed(r *attempt) {
	if s.origin != adhoc || s.agent.ctx.Err() != nil {
		return
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	s.mu.Lock()
	failed := s.attempt == nil && s.current.State == api.SessionFailed && !s.facts.Served && r.who == byPerson
	open := s.pages.forwards
	if failed {
		s.pages.forwards = nil
	}
	s.mu.Unlock()
	if failed {
		open.Close()
		s.agent.forget(s)
	}
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
