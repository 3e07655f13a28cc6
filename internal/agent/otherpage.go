package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/suggest"
)

// announceOthers makes the other pages of the log those of the session.
func (r *jobRun) announceOthers(job api.Job) {
	if r.others == nil {
		return // no log was read
	}
	pages := make([]*probe.Page, len(r.others))
	for i, f := range r.others {
		pages[i] = probe.NewPage(f.Name, probeOptions(r.session, r.nodes), r.target(f, job))
	}
	r.session.setOthers(pages)
}

// setOthers sets the other pages that the job announces. What is known about a page that
// was announced before is kept.
func (s *session) setOthers(pages []*probe.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := len(pages) != len(s.others)
	for i, p := range pages {
		if known := s.otherLocked(p.Name); known != nil && known.SameAs(p) {
			pages[i] = known
		} else {
			changed = true
		}
	}
	if changed {
		s.others = pages
		s.enterLocked()
	}
}

// otherLocked is the page with that name; nil if it is not announced.
func (s *session) otherLocked(name string) *probe.Page {
	i := slices.IndexFunc(s.others, func(p *probe.Page) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return s.others[i]
}

// otherEndpointsLocked are the other pages, without their tokens.
func (s *session) otherEndpointsLocked() []api.NamedEndpoint {
	var list []api.NamedEndpoint
	for _, p := range s.others {
		ep := api.NamedEndpoint{Name: p.Name, Endpoint: p.Endpoint()}
		ep.Token, ep.Password = api.Secret{}, api.Secret{}
		if x := s.forward.ofPage(p.Name); x != nil {
			ep.URL = ep.PageURL(x.local.URLHost()).String()
		}
		list = append(list, ep)
	}
	return list
}

// page is the whole address of a page of the session's job, token included: of the main one
// for "". Another page has a forward from its first use on.
func (s *session) page(ctx context.Context, name string) (api.OpenResponse, error) {
	main, other, err := s.findPage(name)
	if err != nil || other == nil {
		return main, err
	}
	r, err := other.Find(ctx)
	if err != nil {
		return api.OpenResponse{}, api.Errorf(api.CodeNotReady, "cannot open %s of session %s: %w", name, s.name, err).
			WithHint("`tunctl logs %s` shows whether it still runs", s.name)
	}
	local, err := s.forwardOther(other)
	if err != nil {
		return api.OpenResponse{}, err
	}
	return pageAt(r.Endpoint, local), nil
}

// findPage returns the address of the main page, or another page.
func (s *session) findPage(name string) (main api.OpenResponse, other *probe.Page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other, ep := s.otherLocked(name), s.facts.Endpoint
	isMain := name == "" || other == nil && ep != nil && ep.App == name
	switch {
	case !s.hasJobLocked():
		return main, nil, s.onlyForwardsError()
	case !s.hasPageLocked(): // its log is not read
		return main, nil, s.noPageError()
	case isMain && s.facts.Link != "":
		return api.OpenResponse{URL: s.facts.Link}, nil, nil
	case isMain && ep != nil && s.forward != nil:
		return pageAt(*ep, s.forward.ofPage("").local.URLHost()), nil, nil
	case isMain || !s.facts.JobRuns() || ep == nil && len(s.others) == 0:
		return main, nil, api.Errorf(api.CodeNotReady, "session %q has no page to open: its state is %s", s.name, s.current.State).
			WithHint("`tunctl up %s` starts it and waits for it", s.name)
	case other != nil:
		return main, other, nil
	}
	var names []string
	if ep != nil && ep.App != "" {
		names = append(names, ep.App)
	}
	for _, p := range s.others {
		names = append(names, p.Name)
	}
	return main, nil, api.Errorf(api.CodeUsage, "the job of session %s announces no %q in its log", s.name, name).
		WithHint("available: %s; `tunctl forward %s PORT` forwards any port",
			cmp.Or(strings.Join(suggest.NearestFirst(name, names), ", "), "none"), s.name)
}

// forwardOther opens the forward of another page, if it has none, and returns its local address.
func (s *session) forwardOther(p *probe.Page) (local string, err error) {
	s.acting.Lock() // a down would leave its record behind
	defer s.acting.Unlock()
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	x := s.forward.ofPage(p.Name)
	switch {
	case s.forward == nil || s.otherLocked(p.Name) != p:
		err = api.Errorf(api.CodeNotReady, "the job of session %s has just ended or moved", s.name).
			WithHint("`tunctl status %s` shows how it is now", s.name)
	case x == nil:
		x = &sessionForward{isPage: true, page: p.Name}
		err = s.openLocked(s.forward, []*sessionForward{x}, rec)
	}
	_, picked := s.forward.ports()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	_ = s.record(func(r *state.Session) {
		if !slices.Contains(r.Opened, p.Name) {
			r.Opened = append(slices.Clone(r.Opened), p.Name)
		}
		r.KeepPorts(0, picked)
	}, nil)
	return x.local.URLHost(), nil
}

// noPageError is the error for the page of a session that has none.
func (s *session) noPageError() *api.Error {
	return api.Errorf(api.CodeUsage, "session %s has no page: it is for work inside its job", s.name).
		WithHint("`tunctl ssh %s` opens a shell there, `tunctl code %s` an editor", s.name, s.name)
}
