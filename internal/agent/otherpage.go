package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/suggest"
	"tunctl/tunnel/forward"
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
			target: &probeTarget{finding: f, job: job.ID, node: job.Node, files: r.jobs.RuntimeFiles(runner{r.host}, job)},
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

// otherTargetLocked is the target of another page's forward; nil if the page is not
// announced. Connections in advance would be sent to a page that nobody looks at.
func (s *session) otherTargetLocked(name string) *forward.Target {
	p := s.otherLocked(name)
	if p == nil {
		return nil
	}
	ep := p.endpoint()
	return &forward.Target{Dialer: p, Network: "tcp", Address: ep.Address(), HTTP: true, HasToken: !ep.Token.IsZero(), Scarce: true}
}

// otherEndpointsLocked are the other pages, without their tokens.
func (s *session) otherEndpointsLocked() []api.NamedEndpoint {
	var list []api.NamedEndpoint
	for _, p := range s.others {
		ep := api.NamedEndpoint{Name: p.name, Endpoint: p.endpoint()}
		ep.Token, ep.Password = api.Secret{}, api.Secret{}
		if s.forward != nil && s.forward.others[p.name] != nil {
			ep.URL = ep.PageURL(s.forward.others[p.name].URLHost()).String()
		}
		list = append(list, ep)
	}
	return list
}

// notAnnounced is why another page has no target although the session is ready.
func notAnnounced(name string) forward.Reason {
	return forward.Reason{
		Title: "Waiting for " + name,
		Text:  fmt.Sprintf("The log of the job does not announce %s, or it has ended. This page opens when it is announced.", name),
	}
}

// otherPage is the whole address of another page of the session's job, token included. The
// page has a forward from its first use on.
func (s *session) otherPage(ctx context.Context, name string) (api.OpenResponse, error) {
	page, main, err := s.findOther(name)
	if err != nil {
		return api.OpenResponse{}, err
	}
	if main {
		return s.page()
	}
	r, err := page.find(ctx)
	if err != nil {
		return api.OpenResponse{}, api.Errorf(api.CodeNotReady, "cannot open %s of session %s: %w", name, s.name, err).
			WithHint("`tunctl logs %s` shows whether it still runs", s.name)
	}
	l, err := s.openPageOf(page)
	if err != nil {
		return api.OpenResponse{}, err
	}
	return pageAt(r.endpoint, l.URLHost()), nil
}

// findOther returns the page with that name; main says that it is the session's main one.
func (s *session) findOther(name string) (page *otherPage, main bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.hasJobLocked():
		return nil, false, s.onlyForwardsError()
	case !s.hasPageLocked(): // its log is not read
		return nil, false, s.noPageError()
	}
	page = s.otherLocked(name)
	ep := s.facts.endpoint
	switch {
	case page == nil && ep != nil && ep.App == name:
		return nil, true, nil
	case !s.facts.jobRuns() || page == nil && ep == nil && len(s.others) == 0:
		return nil, false, api.Errorf(api.CodeNotReady, "session %q has no page to open: its state is %s", s.name, s.current.State).
			WithHint("`tunctl up %s` starts it and waits for it", s.name)
	case page != nil:
		return page, false, nil
	}
	var names []string
	if ep != nil && ep.App != "" {
		names = append(names, ep.App)
	}
	for _, p := range s.others {
		names = append(names, p.name)
	}
	return nil, false, api.Errorf(api.CodeUsage, "the job of session %s announces no %q in its log", s.name, name).
		WithHint("available: %s; `tunctl forward %s PORT` forwards any port",
			cmp.Or(strings.Join(suggest.NearestFirst(name, names), ", "), "none"), s.name)
}

// openPageOf returns the listener of another page, which its first use opens.
func (s *session) openPageOf(page *otherPage) (*listener, error) {
	s.acting.Lock() // a down would leave its record behind
	defer s.acting.Unlock()
	l, err := s.listenForOther(page)
	if err != nil {
		return nil, err
	}
	_ = s.record(func(r *state.Session) {
		if !slices.Contains(r.Opened, page.name) {
			r.Opened = append(slices.Clone(r.Opened), page.name)
		}
		if l.Note() == "" {
			r.KeepPorts(map[string]int{page.name: l.Port()})
		}
	}, nil)
	return l, nil
}

func (s *session) listenForOther(page *otherPage) (*listener, error) {
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forward == nil || s.otherLocked(page.name) != page {
		return nil, api.Errorf(api.CodeNotReady, "the job of session %s has just ended or moved", s.name).
			WithHint("`tunctl status %s` shows how it is now", s.name)
	}
	if l := s.forward.others[page.name]; l != nil {
		return l, nil
	}
	if err := s.openOther(s.forward, page.name, rec); err != nil {
		return nil, err
	}
	l := s.forward.others[page.name]
	s.serve(s.forward, l)
	s.enterLocked()
	return l, nil
}
