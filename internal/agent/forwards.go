package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/tunnel"
)

// forwards are a session's local listeners, from its first start to its down. A
// session with a job has one, for its page; one without has those of the config.
// A nil *forwards is a session that listens nowhere yet.
type forwards struct {
	page   *tunnel.Forward
	fixed  []fixed
	cancel context.CancelFunc
	done   sync.WaitGroup
	open   bool
}

// listen opens the session's local side, once.
func (s *session) listen(ctx context.Context) error {
	last := s.agent.store.session(s.name).Port
	specs, err := s.fixedSpecs(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forward != nil {
		return nil
	}
	fwd, err := s.openForwards(specs, last)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.agent.ctx) // they outlive the try that opens them
	fwd.cancel = cancel
	for _, f := range fwd.all() {
		fwd.done.Go(func() { s.agent.report("forward", f.Serve(ctx)) })
	}
	s.forward = fwd
	s.enterLocked()
	return nil
}

// keepPort makes the local port the session's own, and says so where it is not
// the one that was wanted.
func (s *session) keepPort() {
	s.mu.Lock()
	page := s.forward.page
	s.mu.Unlock()
	if page == nil {
		return
	}
	if note := page.Note(); note != "" {
		s.agent.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: s.name, Text: note}})
		return // for now only: the wanted one is tried again at the next up
	}
	s.remember(func(r *record) { r.Port = page.Port() })
}

func (s *session) openForwards(specs []configs.ForwardSpec, last int) (*forwards, error) {
	if !s.hasJobLocked() {
		return s.openFixed(specs)
	}
	page, err := tunnel.Listen(tunnel.ListenOptions{Name: s.name, Port: s.cfg.Local, Last: last, Log: s.agent.log})
	if err != nil {
		return nil, &api.Error{Code: api.CodeForward, Message: fmt.Sprintf("no local port for %s: %v", s.name, err), Err: err}
	}
	return &forwards{page: page}, nil
}

// served is a forward that runs.
type served interface {
	Serve(ctx context.Context) error
	Status() api.Forward
}

func (f *forwards) all() []served {
	var all []served
	if f.page != nil {
		all = append(all, f.page)
	}
	for _, x := range f.fixed {
		all = append(all, x)
	}
	return all
}

// turn points the listeners at what is served when the session is ready, and else
// lets them say what is going on.
func (f *forwards) turn(v verdict, since time.Time, facts facts, dialer tunnel.Dialer) {
	if f == nil {
		return
	}
	if facts.dialer != nil {
		dialer = facts.dialer
	}
	ready := v.state == api.SessionReady && facts.link == ""
	switch {
	case ready && f.open:
	case ready && f.page != nil:
		f.page.Open(pageTarget(facts.endpoint, dialer))
	case ready:
		for _, x := range f.fixed {
			x.open(dialer)
		}
	case f.page != nil:
		f.page.Withdraw(reason(v, since))
	default:
		for _, x := range f.fixed {
			x.withdraw(reason(v, since))
		}
	}
	f.open = ready
}

func pageTarget(ep *api.Endpoint, dialer tunnel.Dialer) tunnel.Target {
	t := tunnel.Target{Dialer: dialer, Network: "tcp", Address: ep.Address(), HTTP: strings.HasPrefix(ep.Scheme, "http"), Private: ep.Token.IsZero()}
	if ep.Socket != "" {
		t.Network = "unix"
	}
	if node, ok := dialer.(*tunnel.Node); ok {
		t.Scarce = node.Scarce()
	}
	return t
}

// reason puts a state into words for the page that a browser sees meanwhile.
func reason(v verdict, since time.Time) tunnel.Reason {
	r := tunnel.Reason{Title: "The session is " + string(v.state), Text: v.cause, Hint: v.hint, Since: since}
	switch v.state {
	case api.SessionConnecting, api.SessionReconnecting, api.SessionSubmitting:
		r.Transient = true
	}
	return r
}

// status are the forwards with their counters.
func (f *forwards) status() []api.Forward {
	list := []api.Forward{}
	if f == nil {
		return list
	}
	for _, x := range f.all() {
		list = append(list, x.Status())
	}
	return list
}

// address is where the session's page is here, and its URL once there is one.
func (f *forwards) address(ep *api.Endpoint) (local, url string) {
	if f == nil || f.page == nil {
		return "", ""
	}
	if ep != nil {
		url = ep.PageURL(f.page.URLHost()).String()
	}
	return f.page.Addr().String(), url
}

// close gives the ports back and waits until nothing is served any more.
func (f *forwards) close() {
	if f == nil {
		return
	}
	f.cancel()
	f.done.Wait()
}
