package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

// forwards are a session's listeners, from its first start to its down. A session with a
// job has one, for its page; a session without has those of the config. A nil *forwards
// listens nowhere.
type forwards struct {
	page      *forward.Forward
	fixed     []fixed
	cancel    context.CancelFunc
	done      sync.WaitGroup
	open      bool
	target    forward.Target // of the page, while it is open
	connected bool           // the host is connected
}

// listen opens the session's listeners, once.
func (s *session) listen(ctx context.Context) error {
	last := s.agent.store.Session(s.name).Port
	specs, err := s.fixedSpecs(ctx)
	if err != nil {
		return err
	}
	s.closeOtherKind()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt == nil {
		return context.Canceled // taken down meanwhile: nobody would close them
	}
	return s.listenLocked(specs, last)
}

// holdPort opens the listeners of a session that was up in the last agent, before its
// first attempt. Those of the ssh config take a run of ssh, and are left to the attempt.
func (s *session) holdPort() error {
	last := s.agent.store.Session(s.name).Port
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hasJobLocked() && s.cfg.ForwardSSHConfig {
		return nil
	}
	s.facts = facts{name: s.name, wanted: true, needsJob: s.hasJobLocked(), host: api.Host{Alias: s.cfg.Host, State: api.HostConnecting}}
	return s.listenLocked(s.cfg.Forward, last)
}

func (s *session) listenLocked(specs []configs.ForwardSpec, last int) error {
	if s.forward != nil {
		return nil
	}
	fwd, err := s.openForwards(specs, last)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.agent.ctx) // not of the attempt: they stay open after it
	fwd.cancel = cancel
	for _, f := range fwd.all() {
		fwd.done.Go(func() { s.agent.report("forward", f.Serve(ctx)) })
	}
	s.forward = fwd
	s.enterLocked()
	return nil
}

// closeOtherKind closes the listeners of an earlier attempt if the config has given the
// session a page since, or taken it away.
func (s *session) closeOtherKind() {
	s.mu.Lock()
	fwd := s.forward
	other := fwd != nil && (fwd.page != nil) != s.hasPageLocked()
	if other {
		s.forward = nil
	}
	s.mu.Unlock()
	if other {
		fwd.close()
	}
}

// keepPort remembers the local port of the page for the next up, and publishes a notice
// for each port that is not the wanted one.
func (s *session) keepPort() {
	s.mu.Lock()
	fwd := s.forward
	s.mu.Unlock()
	for _, f := range fwd.status() {
		if f.Note != "" {
			s.agent.hub.publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: s.name, Text: f.Note}})
		}
	}
	if fwd == nil || fwd.page == nil || fwd.page.Note() != "" {
		return // taken down meanwhile, or a substitute: the wanted port is tried again at the next up
	}
	_ = s.record(func(r *state.Session) { r.Port = fwd.page.Port() }, nil)
}

func (s *session) openForwards(specs []configs.ForwardSpec, last int) (*forwards, error) {
	if !s.hasPageLocked() {
		return s.openFixed(specs)
	}
	page, err := forward.Listen(forward.ListenOptions{Name: s.name, Port: s.cfg.Local, Last: last, Shared: s.cfg.Shared, Hosts: s.cfg.AllowHosts, Waiting: s.waitForHost, Log: s.agent.log})
	if err != nil {
		return nil, &api.Error{Code: api.CodeForward, Message: fmt.Sprintf("no local port for %s: %v", s.name, err), Err: err}
	}
	return &forwards{page: page}, nil
}

// waitForHost is called while somebody waits at one of the session's listeners.
func (s *session) waitForHost(person bool) { s.agent.pool.Host(s.host()).Waiting(person) }

// served is a running forward.
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

// apply opens the forwards when the session is ready, the page over its proven route,
// and else lets them show what the session waits for.
func (f *forwards) apply(v verdict, since time.Time, facts facts, host *tunnel.Host, page *route) {
	if f == nil {
		return
	}
	connected := facts.wanted && facts.host.State == api.HostUp
	if connected && !f.connected {
		f.retryRemotes()
	}
	f.connected = connected
	ready := v.state == api.SessionReady && facts.link == ""
	var target forward.Target
	if ready && f.page != nil {
		target = page.target()
	}
	switch {
	case ready && f.open && f.target == target:
	case ready && f.page != nil:
		f.page.Open(target)
	case ready:
		for _, x := range f.fixed {
			x.open(host)
		}
	case f.page != nil:
		f.page.Withdraw(facts.reason(v, since, time.Now()))
	default:
		for _, x := range f.fixed {
			x.withdraw(facts.reason(v, since, time.Now()))
		}
	}
	f.open, f.target = ready, target
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

// fixed is a forward with a fixed target.
type fixed struct {
	spec configs.ForwardSpec
	served
}

// fixedSpecs are the forwards of a session without a job.
func (s *session) fixedSpecs(ctx context.Context) ([]configs.ForwardSpec, error) {
	cfg := s.config()
	if cfg.ForwardSSHConfig {
		return s.sshForwards(ctx, cfg.Host)
	}
	return cfg.Forward, nil
}

// openFixed opens all forwards, or none.
func (s *session) openFixed(specs []configs.ForwardSpec) (*forwards, error) {
	fwd := &forwards{}
	for _, spec := range specs {
		f, err := s.openSpec(spec)
		if err != nil {
			fwd.release()
			return nil, &api.Error{Code: api.CodeForward, Message: fmt.Sprintf("forward %s: %v", spec, err), Err: err}
		}
		fwd.fixed = append(fwd.fixed, fixed{spec: spec, served: f})
	}
	return fwd, nil
}

func (s *session) openSpec(spec configs.ForwardSpec) (served, error) {
	if spec.Kind == api.ForwardRemote {
		return forward.NewRemote(forward.RemoteOptions{
			Name: s.name, Listen: s.agent.pool.Host(s.cfg.Host).Listen,
			Network: network(spec.Listen), Address: spec.Listen,
			LocalNetwork: network(spec.Target), LocalAddress: spec.Target,
			Changed: func() { s.change(func(*facts) {}) },
			Log:     s.agent.log,
		}), nil
	}
	o := forward.ListenOptions{Name: s.name, Kind: spec.Kind, Shared: s.cfg.Shared, Hosts: s.cfg.AllowHosts, Waiting: s.waitForHost, Log: s.agent.log}
	if network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return forward.Listen(o)
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return nil, err
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	return forward.Listen(o)
}

// release closes the listeners of a session that failed to start.
func (f *forwards) release() {
	for _, x := range f.fixed {
		if l, ok := x.served.(*forward.Forward); ok {
			_ = l.Close()
		}
	}
}

// open accepts connections.
func (x fixed) open(dialer forward.Dialer) {
	if f, ok := x.served.(*forward.Forward); ok {
		f.Open(forward.Target{Dialer: dialer, Network: network(x.spec.Target), Address: x.spec.Target})
	}
}

// withdraw holds connections, or rejects them with a reason. The listener of a remote
// forward ends with the connection to the host.
func (x fixed) withdraw(why forward.Reason) {
	if f, ok := x.served.(*forward.Forward); ok {
		f.Withdraw(why)
	}
}

// network is the network of an address: a path is a unix socket.
func network(address string) string {
	if strings.ContainsRune(address, '/') {
		return "unix"
	}
	return "tcp"
}

// sshForwards are the forwards of a host in the person's ssh_config.
func (s *session) sshForwards(ctx context.Context, host string) ([]configs.ForwardSpec, error) {
	settings, err := s.agent.pool.Settings(ctx, host)
	if err != nil {
		return nil, err
	}
	var specs []configs.ForwardSpec
	var errs []error
	add := func(kind api.ForwardKind, lines []string) {
		for _, line := range lines {
			spec, err := sshForward(kind, line)
			specs, errs = append(specs, spec), append(errs, err)
		}
	}
	add(api.ForwardLocal, settings.LocalForwards)
	add(api.ForwardRemote, settings.RemoteForwards)
	add(api.ForwardDynamic, settings.DynamicForwards)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("no forwards for %s in the ssh config", host),
			Hint: "add LocalForward lines there, or set forward = [\"5432:db.int:5432\"] in the config",
		}
	}
	return specs, nil
}

// sshForward parses "8080 [db.int]:80", as ssh -G prints a forward.
func sshForward(kind api.ForwardKind, line string) (configs.ForwardSpec, error) {
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 2 {
		return configs.ForwardSpec{}, fmt.Errorf("ssh config: cannot read forward %q", line)
	}
	spec := configs.ForwardSpec{Kind: kind, Listen: words[0]}
	if _, err := strconv.Atoi(words[0]); err == nil {
		spec.Listen = net.JoinHostPort("localhost", words[0])
	}
	if len(words) == 2 {
		host, port, err := net.SplitHostPort(words[1])
		if err != nil {
			spec.Target = words[1] // a socket
		} else {
			spec.Target = net.JoinHostPort(host, port)
		}
	}
	return spec, nil
}
