package session

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
	"tunctl/internal/words"
	"tunctl/tunnel/forward"
)

// pages are what a session's job serves, as far as that is known, and the session's forwards.
type pages struct {
	forwards *forwards.Set // from the first start to down
	host     string        // on which those of the remote kind listen
	route    *probe.Route  // the proven way to the main page; nil: none
	others   []*probe.Page // the other pages that the job announces
}

// setOthers sets the other pages that the job announces, and reports whether they have changed.
// What is known about a page that was announced before is kept.
func (p *pages) setOthers(list []*probe.Page) (changed bool) {
	changed = len(list) != len(p.others)
	for i, x := range list {
		if known := p.other(x.Name); known != nil && known.SameAs(x) {
			list[i] = known
		} else {
			changed = true
		}
	}
	if changed {
		p.others = list
	}
	return changed
}

// other is the page with that name; nil if it is not announced.
func (p *pages) other(name string) *probe.Page {
	return lists.Find(p.others, func(x *probe.Page) bool { return x.Name == name })
}

// endpoints are the other pages, without their tokens.
func (p *pages) endpoints() []api.NamedEndpoint {
	var list []api.NamedEndpoint
	for _, x := range p.others {
		ep := api.NamedEndpoint{Name: x.Name, Endpoint: x.Endpoint()}
		ep.Token, ep.Password = api.Secret{}, api.Secret{}
		if open := p.forwards.OfPage(x.Name); open != nil {
			ep.URL = ep.PageURL(open.Local.URLHost()).String()
		}
		list = append(list, ep)
	}
	return list
}

// secrets are those of the main page, if it is known, and the other pages.
func (p *pages) secrets(main *api.Endpoint) []api.Secret {
	var list []api.Secret
	if main != nil {
		list = main.Secrets()
	}
	for _, x := range p.others {
		ep := x.Endpoint()
		list = append(list, ep.Secrets()...)
	}
	return list
}

// targets are what the forwards of the other pages lead to.
func (p *pages) targets() map[string]*forward.Target {
	list := map[string]*forward.Target{}
	for _, x := range p.others {
		// Connections in advance would be sent to a page that nobody looks at.
		ep := x.Endpoint()
		list[x.Name] = &forward.Target{Dialer: x, Upgrades: x, Network: "tcp", Address: ep.Address(), HTTP: true, Token: ep.Token, Limited: true}
	}
	return list
}

// Page is the whole address of a page of the session's job, token included: of the main one
// for "". Another page has a forward from its first use on.
func (s *Session) Page(ctx context.Context, name string) (api.OpenResponse, error) {
	main, other, err := s.findPage(name)
	if err != nil || other == nil {
		return main, err
	}
	r, err := other.Find(ctx)
	if err != nil {
		return api.OpenResponse{}, api.Errorf(api.CodeNotReady, "%s of session %s: %w", name, s.Name, err).
			WithHint("`tunctl logs %s` shows whether it still runs", s.Name)
	}
	local, err := s.forwardOther(other)
	if err != nil {
		return api.OpenResponse{}, err
	}
	return pageAt(r.Endpoint, local), nil
}

// ClientPage is the address of the main page for other programs, which stays although each job has
// another token: it has the session's local token, which is made the first time and if renew is set.
// A token can be replaced while the page is not there, too.
func ClientPage(s *Session, renew bool) (page api.OpenResponse, err error) {
	if _, _, err := s.findPage(""); api.HasCode(err, api.CodeUsage) { // it never has one
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = takesLocalTokenLocked(s)
	local := s.Saved().LocalToken
	if err == nil && local == "" || renew && local != "" {
		local = forward.NewLocalToken().Reveal()
		if err := s.parts.Store.Begin(s.Name, func(r *state.Session) { r.LocalToken = local }); err != nil {
			return page, err
		}
		if err != nil {
			return page, api.Errorf(api.CodeNotReady, "the local token of session %s was replaced; the session has no page now", s.Name).Because(err).
				WithHint("`tunctl open %s --client` shows the new address while it is up", s.Name)
		}
	}
	if err != nil {
		return page, err
	}
	ep := *s.facts.Endpoint
	ep.Token = api.NewSecret(local)
	if ep.App == "jupyter" {
		ep.Path = probe.JupyterBase(ep.Path)
	}
	return pageAt(ep, s.pages.forwards.OfPage("").Local.URLHost()), nil
}

// takesLocalTokenLocked is why no local token can stand for that of the main page now.
func takesLocalTokenLocked(s *Session) error {
	ep := s.facts.Endpoint
	if ep == nil || s.pages.forwards == nil || s.facts.Link != "" {
		return api.Errorf(api.CodeNotReady, "session %q has no page with an address: its state is %s", s.Name, s.current.State).
			WithHint("`tunctl up %s` starts it and waits for it", s.Name)
	}
	if ep.Scheme != "http" || ep.Token.IsZero() || ep.App == "novnc" {
		return api.Errorf(api.CodeUsage, "the server of session %s takes no token by plain HTTP, which a local one could stand for", s.Name).
			WithHint("`tunctl open %s --print` shows its address", s.Name)
	}
	return nil
}

// findPage returns the address of the main page, or another page.
func (s *Session) findPage(name string) (main api.OpenResponse, other *probe.Page, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other, ep := s.pages.other(name), s.facts.Endpoint
	isMain := name == "" || other == nil && ep != nil && ep.App == name
	switch {
	case !s.hasJobLocked():
		return main, nil, OnlyForwards(s.Name)
	case !s.hasPageLocked(): // its log is not read
		return main, nil, api.Errorf(api.CodeUsage, "session %s has no page: it is for work inside its job", s.Name).
			WithHint("`tunctl ssh %s` opens a shell there, `tunctl code %s` an editor", s.Name, s.Name)
	case isMain && s.facts.Link != "":
		return api.OpenResponse{URL: s.facts.Link}, nil, nil
	case isMain && ep != nil && s.pages.forwards != nil:
		return pageAt(*ep, s.pages.forwards.OfPage("").Local.URLHost()), nil, nil
	case isMain || !s.facts.JobRuns() || ep == nil && len(s.pages.others) == 0:
		state, up := words.Session(s.current, time.Now()), "starts it and waits for it"
		if state == "disconnected" {
			up = "reconnects"
		} else if facts.IsLive(s.current.Job) {
			up = "waits for it"
		}
		return main, nil, api.Errorf(api.CodeNotReady, "session %q has no page to open: it is %s", s.Name, state).WithHint("`tunctl up %s` %s", s.Name, up)
	case other != nil:
		return main, other, nil
	}
	var names []string
	if ep != nil && ep.App != "" {
		names = append(names, ep.App)
	}
	names = append(names, lists.Map(s.pages.others, func(p *probe.Page) string { return p.Name })...)
	return main, nil, api.Errorf(api.CodeUsage, "the job of session %s announces no %q in its log", s.Name, name).
		WithHint("available: %s; `tunctl forward %s PORT` forwards any port",
			cmp.Or(strings.Join(suggest.NearestFirst(name, names), ", "), "none"), s.Name)
}

// forwardOther opens the forward of another page, if it has none, and returns its local address.
func (s *Session) forwardOther(p *probe.Page) (local string, err error) {
	s.acting.Lock() // a down would leave its record behind
	defer s.acting.Unlock()
	s.mu.Lock()
	x := s.pages.forwards.OfPage(p.Name)
	switch {
	case s.pages.forwards == nil || s.pages.other(p.Name) != p:
		err = api.Errorf(api.CodeNotReady, "the job of session %s has just ended or moved", s.Name).
			WithHint("`tunctl status %s` shows how it is now", s.Name)
	case x == nil:
		x = &forwards.Forward{IsPage: true, Page: p.Name}
		err = s.pages.forwards.Open([]*forwards.Forward{x}, s.forwardOptionsLocked())
	}
	picked := s.pages.forwards.Ports().Picked
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	_ = s.record(func(r *state.Session) {
		if !slices.Contains(r.Opened, p.Name) {
			r.Opened = append(slices.Clone(r.Opened), p.Name)
		}
		r.KeepPorts(0, picked)
	})
	return x.Local.URLHost(), nil
}

// websocketsLocked says what becomes of the page's open WebSockets when the connection is lost.
func (s *Session) websocketsLocked() *api.Websockets {
	r, job := s.pages.route, s.facts.Job()
	switch {
	case r == nil:
		return nil
	case r.Upgrades == nil && r.Endpoint.Scheme == "http" && job != nil && job.State == api.JobRunning && job.Node == "":
		return &api.Websockets{Why: "the node of the job is not known yet"}
	case r.Upgrades == nil:
		return nil
	}
	if err := r.Upgrades.Failure(); err != nil {
		return &api.Websockets{Why: api.Redact(err.Error(), s.pages.secrets(s.facts.Endpoint)...)}
	}
	why := notInside(s.pages.forwards.Status(), r.Endpoint.App)
	return &api.Websockets{Continue: why == "", Why: why}
}

// notInside says which pages have open WebSockets that do not go through the job; "": none has.
func notInside(forwards []api.Forward, main string) string {
	var pages []string
	for _, f := range forwards {
		if f.Direct > 0 {
			pages = append(pages, fmt.Sprintf("%d of %s", f.Direct, cmp.Or(f.Endpoint, main, "the page")))
		}
	}
	if len(pages) == 0 {
		return ""
	}
	return strings.Join(pages, " and ") + " did not get through to the job when they were opened; reload the page to connect them again"
}

// verifyTimeout bounds the probe that an up waits for: the command waits for the agent
// only a few seconds longer.
const verifyTimeout = 5 * time.Second

// verify probes the page of a ready session once more, for the user who wants to use it
// now: its job may have been cancelled a moment ago, and the scheduler is not queried
// that often.
func (s *Session) verify(ctx context.Context) {
	s.mu.Lock()
	r, ready := s.pages.route, s.current.State == api.SessionReady && s.facts.Link == ""
	s.mu.Unlock()
	if r == nil || !ready {
		return
	}
	probing, cancel := context.WithTimeout(ctx, min(verifyTimeout, s.parts.Limits.Run.Probe.Request))
	defer cancel()
	err := r.Verify(probing)
	if err == nil || ctx.Err() != nil {
		return // it responds, or the user has left and nothing is known
	}
	what := r.Endpoint.Address()
	if r.Inside != nil {
		what = "the job"
	}
	s.parts.Log.Info("the page or the job no longer responds", "session", s.Name, "err", err)
	s.Change(func(f *facts.Facts) {
		if s.pages.route == r && f.Answers {
			f.Answers, f.Doing = false, facts.Doing{Text: fmt.Sprintf("%s no longer responds: %v", what, err)}
		}
	})
	r.Suspect()
}

// pageAt is an endpoint's page at a local address, with its secrets.
func pageAt(ep api.Endpoint, local string) api.OpenResponse {
	u := ep.PageURL(local)
	switch {
	case ep.Token.IsZero():
	case ep.App == "novnc": // it takes its password from behind the #, which stays in the browser
		u.RawQuery, u.Fragment = "autoconnect=1&resize=remote", url.Values{"password": {ep.Token.Reveal()}}.Encode()
	default:
		q := u.Query()
		q.Set(ep.TokenParam(), ep.Token.Reveal())
		u.RawQuery = q.Encode()
	}
	// The log or the runtime file has them, and a terminal shows them.
	return api.OpenResponse{URL: u.String(), App: ep.App, User: api.Sanitize(ep.User), Password: api.Sanitize(ep.Password.Reveal())}
}
