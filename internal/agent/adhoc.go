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
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// handleForward brings up forwards that are in no config: those through a host as a
// separate session, those of a session beside its own.
func (a *Agent) handleForward(ctx context.Context, req api.ForwardRequest) (api.ForwardResponse, error) {
	a.useEnv(req.Env)
	specs, err := adhocSpecs(req)
	switch {
	case err != nil:
		return api.ForwardResponse{}, err
	case req.Session != "":
		return a.forwardSession(req, specs)
	}
	if err := a.allowed(ctx, req.Host); err != nil {
		return api.ForwardResponse{}, err
	}
	s, err := a.adhoc(req.Host, specs)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	now, at := s.start(byPerson, false, "", clientOf(ctx), nil)
	a.resume()
	return api.ForwardResponse{UpResponse: api.UpResponse{Session: now, At: at}, Forwards: []api.Forward{}}, nil
}

// forwardSession adds forwards to those of a session, or removes added ones.
func (a *Agent) forwardSession(req api.ForwardRequest, specs []configs.ForwardSpec) (api.ForwardResponse, error) {
	s, err := a.session(req.Session)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	change := s.addForwards
	if req.Remove {
		change = s.removeForwards
	}
	forwards, err := change(specs)
	if err != nil {
		return api.ForwardResponse{}, err
	}
	s.mu.Lock()
	open, added, picked := s.forward != nil, s.forward.added(), s.forward.pickedPorts()
	s.mu.Unlock()
	if !open {
		return api.ForwardResponse{}, api.Errorf(api.CodeNotReady, "the forwards of session %s are just being opened again", s.name).
			WithHint("try again")
	}
	err = s.record(func(r *state.Session) {
		r.Added = added
		r.KeepPorts(picked)
	}, nil)
	now, at := s.status(), time.Now()
	a.hub.publish(api.Event{Type: api.EventSession, Time: at, Session: &now})
	return api.ForwardResponse{UpResponse: api.UpResponse{Session: now, At: at}, Forwards: forwards}, err
}

// addForwards opens forwards to the node of the session's job, all or none. Those that
// exist already stay as they are.
func (s *session) addForwards(specs []configs.ForwardSpec) ([]api.Forward, error) {
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cannotAddLocked(specs); err != nil {
		return nil, err
	}
	was := len(s.forward.fixed)
	for _, spec := range specs {
		if s.forward.find(spec) >= 0 {
			continue
		}
		if err := s.openFixed(s.forward, spec, true, rec); err != nil {
			for _, x := range s.forward.fixed[was:] {
				release(x)
			}
			s.forward.fixed = s.forward.fixed[:was]
			return nil, err
		}
	}
	for _, x := range s.forward.fixed[was:] {
		s.serve(s.forward, x)
	}
	s.enterLocked()
	list := make([]api.Forward, len(specs))
	for i, spec := range specs {
		list[i] = s.forward.fixed[s.forward.find(spec)].Status()
	}
	return list, nil
}

// find is the index of a fixed forward; -1 if there is none.
func (f *forwards) find(spec configs.ForwardSpec) int {
	return slices.IndexFunc(f.fixed, func(x *fixed) bool { return x.spec == spec })
}

// added are the forwards that are in no config.
func (f *forwards) added() []string {
	var texts []string
	if f == nil {
		return texts
	}
	for _, x := range f.fixed {
		if x.added {
			texts = append(texts, x.spec.String())
		}
	}
	return texts
}

// cannotAddLocked is why forwards cannot be added to the session's; nil if they can.
func (s *session) cannotAddLocked(specs []configs.ForwardSpec) error {
	switch {
	case !s.hasJobLocked():
		return api.Errorf(api.CodeUsage, "session %s has no job", s.name).
			WithHint("`tunctl forward %s …` forwards through its host", s.cfg.Host)
	case s.attempt == nil || s.forward == nil:
		return s.notRunningLocked()
	}
	for _, spec := range specs {
		if spec.Kind == api.ForwardRemote {
			return api.Errorf(api.CodeUsage, "%s would listen on the login node, and not on that of the job", spec).
				WithHint("`tunctl forward %s %s` listens on the login node", s.cfg.Host, spec)
		}
	}
	return nil
}

// removeForwards ends forwards that were added, all or none. A spec may have another port
// here than the one that it asked for.
func (s *session) removeForwards(specs []configs.ForwardSpec) ([]api.Forward, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forward == nil {
		return nil, api.Errorf(api.CodeNotReady, "session %s is down and forwards nothing", s.name)
	}
	for _, spec := range specs {
		if i := s.forward.find(spec); i < 0 || !s.forward.fixed[i].added {
			return nil, api.Errorf(api.CodeUsage, "forward %s was not added to session %s", spec, s.name).
				WithHint("added: %s; those of the config are removed there", cmp.Or(strings.Join(s.forward.added(), ", "), "none"))
		}
	}
	list := []api.Forward{}
	for _, spec := range specs {
		if i := s.forward.find(spec); i >= 0 { // else the same was given twice
			x := s.forward.fixed[i]
			list = append(list, x.Status())
			x.stop()
			s.forward.fixed = slices.Delete(s.forward.fixed, i, i+1)
		}
	}
	s.enterLocked()
	return list, nil
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
		if live && s.adhoc && rec.Attached == host && slices.Equal(rec.Forwards, texts) {
			return s, nil
		}
		if _, configured := a.config.Session(name); !live && !configured && !rec.Wanted {
			break
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := a.store.Update(name, func(r *state.Session) { *r = state.Session{Attached: host, Forwards: texts} }); err != nil {
		return nil, err
	}
	return a.adhocLocked(name, host, specs), nil
}

func (a *Agent) adhocLocked(name, host string, specs []configs.ForwardSpec) *session {
	s := newSession(a, configs.Session{Name: name, Host: host, Forward: specs})
	s.adhoc = true
	a.sessions[name] = s
	return s
}

// restoreForwardsLocked creates the session of remembered forwards again.
func (a *Agent) restoreForwardsLocked(name string, rec state.Session) (*session, bool) {
	specs := make([]configs.ForwardSpec, len(rec.Forwards))
	for i, text := range rec.Forwards {
		var err error
		if specs[i], err = configs.ParseForward(text); err != nil {
			a.log.Error("cannot read a saved forward", "session", name, "err", err)
			return nil, false
		}
	}
	return a.adhocLocked(name, rec.Attached, specs), true
}

// dropFailed drops forwards that never came up: the person knows why, and nothing tries
// them again.
func (s *session) dropFailed(r *attempt) {
	if !s.adhoc || s.agent.ctx.Err() != nil {
		return
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	s.mu.Lock()
	failed := s.attempt == nil && s.current.State == api.SessionFailed && !s.facts.served && r.who == byPerson
	fwd := s.forward
	if failed {
		s.forward = nil
	}
	s.mu.Unlock()
	if failed {
		fwd.close()
		s.agent.forget(s)
	}
}

func specTexts(specs []configs.ForwardSpec) []string {
	texts := make([]string, len(specs))
	for i, s := range specs {
		texts[i] = s.String()
	}
	return texts
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
