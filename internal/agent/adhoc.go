package agent

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// handleForward brings up forwards that are in no config, as a separate session.
func (a *Agent) handleForward(ctx context.Context, req api.ForwardRequest) (api.UpResponse, error) {
	a.useEnv(req.Env)
	if err := a.allowed(ctx, req.Host); err != nil {
		return api.UpResponse{}, err
	}
	specs, err := adhocSpecs(req)
	if err != nil {
		return api.UpResponse{}, err
	}
	s, err := a.adhoc(req.Host, specs)
	if err != nil {
		return api.UpResponse{}, err
	}
	now, at := s.start(byPerson, "", clientOf(ctx))
	a.resume()
	return api.UpResponse{Session: now, At: at}, nil
}

// adhocSpecs parses the forwards of a request. Bind applies to those without an address.
func adhocSpecs(req api.ForwardRequest) ([]configs.ForwardSpec, error) {
	if len(req.Specs) == 0 {
		return nil, &api.Error{Code: api.CodeUsage, Message: "no forward given", Hint: `write "5432:db.int:5432", "R:9000:localhost:9000" or "D:1080"`}
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
// narval-5432.
func adhocName(host string, first configs.ForwardSpec) string {
	_, port, err := net.SplitHostPort(first.Listen)
	if err != nil {
		port = strings.TrimSuffix(path.Base(first.Listen), ".sock")
	}
	return attachedName(host, port)
}
