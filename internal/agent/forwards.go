package agent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// forwards are a session's listeners, from its first start to its down: for the page of
// its job, if it has one; for the forwards of the config, and those that were added; and
// for the job's other pages that were opened. A nil *forwards listens nowhere.
type forwards struct {
	page      *listener // nil: the session has no job
	fixed     []*fixed
	others    map[string]*listener // by the name of the page
	ctx       context.Context      //nolint:containedctx // of the listeners: one may be added later
	cancel    context.CancelFunc
	done      sync.WaitGroup
	connected bool // the host is connected
}

// served is a running forward.
type served interface {
	Serve(ctx context.Context) error
	Status() api.Forward
}

// listener is a forward that listens here, and its target.
type listener struct {
	*forward.Forward
	endpoint string          // the name of the other page that it is for
	target   *forward.Target // nil: withdrawn
}

// Status reports what the forward is for, and what it has relayed.
func (l *listener) Status() api.Forward {
	st := l.Forward.Status()
	st.Endpoint = l.endpoint
	return st
}

// set leads the forward to a target; without one it shows why.
func (l *listener) set(target *forward.Target, why forward.Reason) {
	switch {
	case target == nil:
		l.Withdraw(why)
	case l.target == nil || *l.target != *target:
		l.Open(*target)
	}
	l.target = target
}

// listen opens the session's listeners, once.
func (s *session) listen(ctx context.Context) error {
	rec := s.agent.store.Session(s.name)
	specs, err := s.fixedSpecs(ctx)
	if err != nil {
		return err
	}
	s.closeOutdated(specs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return context.Canceled // taken down meanwhile: nobody would close them
	}
	return s.listenLocked(specs, rec)
}

// holdPort opens the listeners of a session that was up in the last agent, before its
// first attempt. Those of the ssh config take a run of ssh, and are left to the attempt.
func (s *session) holdPort() error {
	rec := s.agent.store.Session(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasJobLocked() && s.cfg.ForwardSSHConfig {
		return nil
	}
	s.facts = facts{name: s.name, wanted: true, needsJob: s.hasJobLocked(), host: api.Host{Alias: s.cfg.Host, State: api.HostConnecting}}
	return s.listenLocked(s.cfg.Forward, rec)
}

func (s *session) listenLocked(specs []configs.ForwardSpec, rec state.Session) error {
	if s.forward != nil {
		return nil
	}
	fwd, err := s.openForwards(specs, rec)
	if err != nil {
		return err
	}
	for _, x := range fwd.all() {
		s.serve(fwd, x)
	}
	s.forward = fwd
	s.enterLocked()
	return nil
}

// closeOutdated closes the listeners of an earlier attempt if the config has other
// forwards since, or has given the session a page or taken it away.
func (s *session) closeOutdated(specs []configs.ForwardSpec) {
	s.mu.Lock()
	fwd := s.forward
	outdated := fwd != nil && ((fwd.page != nil) != s.hasPageLocked() || !slices.Equal(fwd.configured(), specs))
	if outdated {
		s.forward = nil
	}
	s.mu.Unlock()
	if outdated {
		fwd.close()
	}
}

// configured are the forwards of the config.
func (f *forwards) configured() []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, x := range f.fixed {
		if !x.added {
			specs = append(specs, x.spec)
		}
	}
	return specs
}

// keepPorts remembers the local ports that were picked, for the next up, and publishes a
// notice for each port that is not the wanted one.
func (s *session) keepPorts() {
	s.mu.Lock()
	fwd := s.forward
	picked, list := fwd.pickedPorts(), fwd.status()
	s.mu.Unlock()
	for _, f := range list {
		if f.Note != "" {
			s.agent.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: s.name, Text: f.Note}})
		}
	}
	if fwd == nil {
		return // taken down meanwhile
	}
	_ = s.record(func(r *state.Session) {
		if fwd.page != nil && fwd.page.Note() == "" {
			r.Port = fwd.page.Port()
		}
		r.KeepPorts(picked)
	}, nil)
}

// pickedPorts are the ports of the forwards that listen on any free one, and of the other
// pages. Those that stand in for one in use are left out: that one is tried again at the
// next up.
func (f *forwards) pickedPorts() map[string]int {
	ports := map[string]int{}
	if f == nil {
		return ports
	}
	add := func(key string, l *listener) {
		if l.Note() == "" {
			ports[key] = l.Port()
		}
	}
	for _, x := range f.fixed {
		if l, ok := x.served.(*listener); ok && x.spec.PicksPort() {
			add(x.spec.String(), l)
		}
	}
	for name, l := range f.others {
		add(name, l)
	}
	return ports
}

// openForwards opens all listeners of the session, or none.
func (s *session) openForwards(specs []configs.ForwardSpec, rec state.Session) (*forwards, error) {
	fwd := &forwards{others: map[string]*listener{}}
	if err := s.openAll(fwd, specs, rec); err != nil {
		for _, x := range fwd.all() {
			release(x)
		}
		return nil, err
	}
	fwd.ctx, fwd.cancel = context.WithCancel(s.agent.ctx) // not of the attempt: they stay open after it
	return fwd, nil
}

func (s *session) openAll(fwd *forwards, specs []configs.ForwardSpec, rec state.Session) error {
	var err error
	if s.hasPageLocked() {
		if fwd.page, err = s.openListener(forward.ListenOptions{Port: s.cfg.Local, Last: rec.Port}); err != nil {
			return api.Errorf(api.CodeForward, "no local port for %s: %w", s.name, err)
		}
		for _, name := range rec.Opened {
			if err := s.openOther(fwd, name, rec); err != nil {
				return err
			}
		}
	}
	for _, spec := range specs {
		if err := s.openFixed(fwd, spec, false, rec); err != nil {
			return err
		}
	}
	for _, text := range rec.Added {
		spec, err := configs.ParseForward(text)
		if err != nil {
			s.agent.log.Error("cannot read a saved forward", "session", s.name, "err", err)
			continue
		}
		if fwd.find(spec) >= 0 {
			continue // it is in the config since
		}
		if err := s.openFixed(fwd, spec, true, rec); err != nil {
			return err
		}
	}
	return nil
}

// openOther opens the listener of another page of the job.
func (s *session) openOther(fwd *forwards, name string, rec state.Session) error {
	l, err := s.openListener(forward.ListenOptions{Last: rec.Ports[name]})
	if err != nil {
		return api.Errorf(api.CodeForward, "no local port for %s of %s: %w", name, s.name, err)
	}
	l.endpoint, fwd.others[name] = name, l
	return nil
}

// openListener opens a listener with the session's settings.
func (s *session) openListener(o forward.ListenOptions) (*listener, error) {
	o.Name, o.Shared, o.Hosts, o.Ports, o.Waiting, o.Log = s.name, s.cfg.Shared, s.cfg.AllowHosts, s.ports, s.waitForHost, s.agent.log
	f, err := forward.Listen(o)
	if err != nil {
		return nil, err
	}
	return &listener{Forward: f}, nil
}

// ports are the local ports of the session's forwards.
func (s *session) ports() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ports []int
	for _, f := range s.forward.status() {
		if at, err := netip.ParseAddrPort(f.Listen); err == nil && f.Kind == api.ForwardLocal {
			ports = append(ports, int(at.Port()))
		}
	}
	return ports
}

// waitForHost is called while somebody waits at one of the session's listeners.
func (s *session) waitForHost(person bool) { s.agent.pool.Host(s.host()).Waiting(person) }

// serve runs a forward until it is stopped, or all are closed.
func (s *session) serve(fwd *forwards, x served) {
	ctx, stop := context.WithCancel(fwd.ctx)
	if x, ok := x.(*fixed); ok {
		x.stop = stop
	}
	fwd.done.Go(func() {
		defer stop()
		s.agent.report("forward", x.Serve(ctx))
	})
}

func (f *forwards) all() []served {
	var all []served
	if f.page != nil {
		all = append(all, f.page)
	}
	for _, x := range f.fixed {
		all = append(all, x)
	}
	for _, name := range slices.Sorted(maps.Keys(f.others)) {
		all = append(all, f.others[name])
	}
	return all
}

// targets are what a session's forwards lead to now. Those without a target wait.
type targets struct {
	page   *forward.Target
	fixed  forward.Dialer // who dials for the fixed forwards
	others map[string]*forward.Target
	ready  bool // the log was read: another page without a target is not announced
}

// targetsLocked decides what the session's forwards lead to. The page is open over its
// proven route once the session is ready; the other forwards of a session with a job lead
// to the job's node while it runs, those of a session without one through the host.
func (s *session) targetsLocked(v verdict) targets {
	t := targets{others: map[string]*forward.Target{}, ready: v.state == api.SessionReady}
	switch {
	case s.forward == nil:
		return t
	case !s.hasJobLocked():
		if t.ready {
			t.fixed = s.agent.pool.Host(s.cfg.Host)
		}
		return t
	}
	if t.ready && s.facts.link == "" && s.forward.page != nil {
		page := s.route.target()
		t.page = &page
	}
	if s.facts.jobRuns() {
		t.fixed = nodeDialer{session: s, job: s.facts.job.Ref(), node: s.facts.job.Node, restarts: s.facts.job.Restarts}
		for name := range s.forward.others {
			t.others[name] = s.otherTargetLocked(name)
		}
	}
	return t
}

// apply leads the forwards to their targets; those without one show why.
func (f *forwards) apply(t targets, connected bool, why forward.Reason) {
	if f == nil {
		return
	}
	if connected && !f.connected {
		f.retryRemotes()
	}
	f.connected = connected
	if f.page != nil {
		f.page.set(t.page, why)
	}
	for _, x := range f.fixed {
		if l, ok := x.served.(*listener); ok { // that of a remote forward ends with the connection to the host
			l.set(x.target(t.fixed), why)
		}
	}
	for name, l := range f.others {
		if t.ready {
			why = notAnnounced(name)
		}
		l.set(t.others[name], why)
	}
}

// nodeDialer dials for the forwards of a session with a job, as the node does that one
// run of the job is on.
type nodeDialer struct {
	session   *session
	job, node string
	restarts  int
}

// Dial implements forward.Dialer. Clients wait while the job ends or moves: its next state
// withdraws the forward.
func (d nodeDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	node, err := d.session.jobMachine(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrDown, err)
	}
	return node.Dial(ctx, network, address)
}

// retryRemotes requests the remote forwards from the host at once.
func (f *forwards) retryRemotes() {
	for _, x := range f.fixed {
		if r, ok := x.served.(*forward.Remote); ok {
			r.Retry()
		}
	}
}

// remoteListeners is the state of the forwards that listen on the host.
func (f *forwards) remoteListeners() hostListeners {
	var l hostListeners
	if f == nil {
		return l
	}
	l.others = f.page != nil
	for _, x := range f.fixed {
		r, ok := x.served.(*forward.Remote)
		switch {
		case !ok || r.Err() == nil:
			l.others = true
		case r.Refused() != nil:
			l.refused = append(l.refused, fmt.Sprintf("forward %s was refused: %v", x.spec, r.Refused()))
		case l.pending == "":
			l.pending = "asking the host to listen for " + x.spec.String()
		}
	}
	return l
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

// address is the local address of the session's page, and its URL once there is one.
func (f *forwards) address(ep *api.Endpoint) (local, url string) {
	if f == nil || f.page == nil {
		return "", ""
	}
	if ep != nil {
		url = ep.PageURL(f.page.URLHost()).String()
	}
	return f.page.Addr().String(), url
}

// close closes the listeners and waits until their connections have ended.
func (f *forwards) close() {
	if f == nil {
		return
	}
	f.cancel()
	f.done.Wait()
}

// release closes the listener of a forward that is not served.
func release(x served) {
	if f, ok := x.(*fixed); ok {
		x = f.served
	}
	if l, ok := x.(*listener); ok {
		_ = l.Close()
	}
}
