package session

import (
	"cmp"
	"maps"
	"path/filepath"

	"tunctl/configs"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
)

// RecentChoices are those of a session's earlier runs. A second session shares them with the
// one of the config.
func (s *Session) RecentChoices() []api.Choices {
	return s.parts.Store.Session(cmp.Or(s.Of, s.Name)).Recent
}

// Source is what a session's job is made from.
func (a *Parts) Source(cfg configs.Session) *submit.Source {
	return &submit.Source{
		Session: cfg, Section: a.Sessions.Section(cfg.Name), Host: a.Settings.Config().Host(cfg.Host), Sites: a.Settings.Sites(),
		Scheduler: a.Hosts.KnownScheduler(cfg.Host), Found: a.Store.Found(cfg.Host), Folder: filepath.Dir(a.Settings.Config().Path), Log: a.Log,
	}
}

// requestedPlan is the plan of a request with choices, checked as far as the site is known; zero if
// it has none.
func (r *Registry) requestedPlan(s *Session, req api.UpRequest) (submit.Plan, error) {
	if len(req.With) == 0 && !req.Again {
		return submit.Plan{}, nil
	}
	cfg := s.Config()
	if cfg.Submit == "" {
		return submit.Plan{}, api.Errorf(api.CodeUsage, "nothing can be chosen for session %s: tunctl submits no job for it", s.Name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, r.Section(s.Name))
	}
	with := api.Choices{}
	if req.Again {
		recent := s.RecentChoices()
		if len(recent) == 0 {
			return submit.Plan{}, api.Errorf(api.CodeUsage, "session %s has no earlier choices to repeat", s.Name).
				WithHint("`tunctl up %s --with NAME=VALUE` makes some", s.Name)
		}
		maps.Copy(with, recent[0])
	}
	maps.Copy(with, req.With)
	return r.Source(cfg).Plan(with)
}
