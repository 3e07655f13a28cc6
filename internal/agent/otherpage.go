package agent

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/suggest"
)

// otherPage is a page that the session's job announces besides its main one, such as a
// dashboard. It is the dialer of its own forward: nothing is sent to it before its first
// use, which finds the way to it as for the main page.
type otherPage struct {
	name   string
	prober *prober // for its routes; it serves nothing
	target *probeTarget
	since  time.Time     // when it was announced
	search ctxtime.Mutex // held while a caller looks for the way

	mu      sync.Mutex
	route   *route // the way that works; nil: none is known
	failure error  // of the last search
	restTo  time.Time
}

// endpoint is the page as it was announced, or as it is reached once that is known.
func (p *otherPage) endpoint() api.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route != nil {
		return p.route.endpoint
	}
	return p.target.finding.Endpoint
}

// Dial implements forward.Dialer.
func (p *otherPage) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r, err := p.find(ctx)
	if err != nil {
		return nil, err
	}
	t := r.target()
	conn, err := r.dialer.Dial(ctx, t.Network, t.Address)
	if errors.Is(err, api.ErrRefused) || errors.Is(err, api.ErrProhibited) {
		p.settle(nil, nil) // the next caller looks for another way
	}
	return conn, err
}

// find returns the way to the page, which it looks for if none is known. After a search
// that failed, callers get its error for a moment: a browser asks again and again.
func (p *otherPage) find(ctx context.Context) (*route, error) {
	if err := p.search.Lock(ctx); err != nil {
		return nil, err
	}
	defer p.search.Unlock()
	p.mu.Lock()
	found, failure := p.route, p.failure
	resting := time.Now().Before(p.restTo)
	p.mu.Unlock()
	switch {
	case found != nil:
		return found, nil
	case failure != nil && resting:
		return nil, failure
	}
	result := p.prober.prove(ctx, p.target, p.since)
	if result.route == nil {
		failure = errors.New(result.doing)
		if ctx.Err() == nil { // else nothing is known
			p.settle(nil, failure)
		}
		return nil, failure
	}
	p.settle(result.route, nil)
	return result.route, nil
}

func (p *otherPage) settle(r *route, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.route, p.failure = r, failure
	p.restTo = time.Now().Add(p.prober.session.agent.limits.ProbeEvery)
}

// announceOthers makes the other pages of the log those of the session.
func (r *jobRun) announceOthers(job api.Job) {
	if r.others == nil {
		return // no log was read
	}
	pages := make([]*otherPage, len(r.others))
	for i, f := range r.others {
		pages[i] = &otherPage{
			name: f.Name, prober: newProber(r.session, r.nodes), since: time.Now(), search: ctxtime.NewMutex(),
			target: &probeTarget{finding: f, job: job.ID, node: job.Node, files: r.jobs.RuntimeFiles(hosts.Runner{Host: r.host}, job)},
		}
	}
	r.session.setOthers(pages)
}

// setOthers sets the other pages that the job announces. What is known about a page that
// was announced before is kept.
func (s *session) setOthers(pages []*otherPage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := len(pages) != len(s.others)
	for i, p := range pages {
		if known := s.otherLocked(p.name); known != nil && known.prober.nodes == p.prober.nodes && known.target.sameAs(p.target) {
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
func (s *session) otherLocked(name string) *otherPage {
	i := slices.IndexFunc(s.others, func(p *otherPage) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return s.others[i]
}

// otherEndpointsLocked are the other pages, without their tokens.
func (s *session) otherEndpointsLocked() []api.NamedEndpoint {
	var list []api.NamedEndpoint
	for _, p := range s.others {
		ep := api.NamedEndpoint{Name: p.name, Endpoint: p.endpoint()}
		ep.Token, ep.Password = api.Secret{}, api.Secret{}
		if x := s.forward.ofPage(p.name); x != nil {
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
	r, err := other.find(ctx)
	if err != nil {
		return api.OpenResponse{}, api.Errorf(api.CodeNotReady, "cannot open %s of session %s: %w", name, s.name, err).
			WithHint("`tunctl logs %s` shows whether it still runs", s.name)
	}
	local, err := s.forwardOther(other)
	if err != nil {
		return api.OpenResponse{}, err
	}
	return pageAt(r.endpoint, local), nil
}

// findPage returns the address of the main page, or another page.
func (s *session) findPage(name string) (main api.OpenResponse, other *otherPage, err error) {
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
		names = append(names, p.name)
	}
	return main, nil, api.Errorf(api.CodeUsage, "the job of session %s announces no %q in its log", s.name, name).
		WithHint("available: %s; `tunctl forward %s PORT` forwards any port",
			cmp.Or(strings.Join(suggest.NearestFirst(name, names), ", "), "none"), s.name)
}

// forwardOther opens the forward of another page, if it has none, and returns its local address.
func (s *session) forwardOther(p *otherPage) (local string, err error) {
	s.acting.Lock() // a down would leave its record behind
	defer s.acting.Unlock()
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	x := s.forward.ofPage(p.name)
	switch {
	case s.forward == nil || s.otherLocked(p.name) != p:
		err = api.Errorf(api.CodeNotReady, "the job of session %s has just ended or moved", s.name).
			WithHint("`tunctl status %s` shows how it is now", s.name)
	case x == nil:
		x = &sessionForward{isPage: true, page: p.name}
		err = s.openLocked(s.forward, []*sessionForward{x}, rec)
	}
	_, picked := s.forward.ports()
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	_ = s.record(func(r *state.Session) {
		if !slices.Contains(r.Opened, p.name) {
			r.Opened = append(slices.Clone(r.Opened), p.name)
		}
		r.KeepPorts(0, picked)
	}, nil)
	return x.local.URLHost(), nil
}
