package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// forwards are a session's forwards, from its first start to its down: of the page of its
// job, if it has one; those of the config, and those that were added; and of the job's other
// pages that were opened. A nil *forwards has none.
type forwards struct {
	list      []*sessionForward
	ctx       context.Context //nolint:containedctx // of the listeners: one may be added later
	cancel    context.CancelFunc
	done      sync.WaitGroup
	connected bool // the host is connected
}

// sessionForward is one forward of a session: of a page of its job, or to a fixed target.
type sessionForward struct {
	isPage bool
	page   string              // the name of the page; "": the main one
	spec   configs.ForwardSpec // of a fixed target
	added  bool                // by a person, and in no config
	local  *forward.Forward    // nil: it listens on the host
	remote *forward.Remote     // nil: it listens here
	target *forward.Target     // of local; nil: withdrawn
	stop   context.CancelFunc
}

// status reports what the forward is for, and what it has relayed.
func (x *sessionForward) status() (st api.Forward) {
	if x.remote != nil {
		st = x.remote.Status()
	} else {
		st = x.local.Status()
	}
	st.Endpoint, st.Added = x.page, x.added
	return st
}

// set leads the forward to a target; without one it shows why.
func (x *sessionForward) set(target *forward.Target, why forward.Reason) {
	switch {
	case target == nil:
		x.local.Withdraw(why)
	case x.target == nil || *x.target != *target:
		x.local.Open(*target)
	}
	x.target = target
}

// ofPage is the forward of a page; nil if it has none.
func (f *forwards) ofPage(name string) *sessionForward {
	return f.find(func(x *sessionForward) bool { return x.isPage && x.page == name })
}

// to is the forward of a spec; nil if there is none.
func (f *forwards) to(spec configs.ForwardSpec) *sessionForward {
	return f.find(func(x *sessionForward) bool { return !x.isPage && x.spec == spec })
}

func (f *forwards) find(is func(*sessionForward) bool) *sessionForward {
	if f != nil {
		if i := slices.IndexFunc(f.list, is); i >= 0 {
			return f.list[i]
		}
	}
	return nil
}

// specs are the forwards to fixed targets, those of the config or those that were added.
func (f *forwards) specs(added bool) []configs.ForwardSpec {
	var specs []configs.ForwardSpec
	for _, x := range f.list {
		if !x.isPage && x.added == added {
			specs = append(specs, x.spec)
		}
	}
	return specs
}

// status are the forwards with their counters.
func (f *forwards) status() []api.Forward {
	list := []api.Forward{}
	if f != nil {
		for _, x := range f.list {
			list = append(list, x.status())
		}
	}
	return list
}

// ports are the ports that were picked: of the main page, 0 if it has none, and of the other
// pages and the forwards that listen on any free one. Those that stand in for one in use are
// left out: that one is tried again at the next up.
func (f *forwards) ports() (page int, picked map[string]int) {
	picked = map[string]int{}
	if f == nil {
		return 0, picked
	}
	for _, x := range f.list {
		switch {
		case x.local == nil || x.local.Note() != "":
		case x.page != "":
			picked[x.page] = x.local.Port()
		case x.isPage:
			page = x.local.Port()
		case x.spec.PicksPort():
			picked[x.spec.String()] = x.local.Port()
		}
	}
	return page, picked
}

// remoteListeners is the state of the forwards that listen on the host.
func (f *forwards) remoteListeners() facts.Listeners {
	var l facts.Listeners
	if f == nil {
		return l
	}
	for _, x := range f.list {
		switch {
		case x.remote == nil || x.remote.Err() == nil:
			l.Others = true
		case x.remote.Refused() != nil:
			l.Refused = append(l.Refused, fmt.Sprintf("forward %s was refused: %v", x.spec, x.remote.Refused()))
		case l.Pending == "":
			l.Pending = "asking the host to listen for " + x.spec.String()
		}
	}
	return l
}

// close closes the listeners and waits until their connections have ended.
func (f *forwards) close() {
	if f != nil {
		f.cancel()
		f.done.Wait()
	}
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
	s.facts = facts.Facts{Name: s.name, Wanted: true, NeedsJob: s.hasJobLocked(), Host: api.Host{Alias: s.cfg.Host, State: api.HostConnecting}}
	return s.listenLocked(s.cfg.Forward, rec)
}

func (s *session) listenLocked(specs []configs.ForwardSpec, rec state.Session) error {
	if s.forward != nil {
		return nil
	}
	var all []*sessionForward
	if s.hasPageLocked() {
		all = append(all, &sessionForward{isPage: true})
		for _, name := range rec.Opened {
			all = append(all, &sessionForward{isPage: true, page: name})
		}
	}
	for _, spec := range specs {
		all = append(all, &sessionForward{spec: spec})
	}
	for _, spec := range s.agent.savedForwards(s.name, rec.Added) {
		if !slices.Contains(specs, spec) { // else it is in the config since
			all = append(all, &sessionForward{spec: spec, added: true})
		}
	}
	fwd := &forwards{}
	fwd.ctx, fwd.cancel = context.WithCancel(s.agent.ctx) // not of the attempt: they stay open after it
	if err := s.openLocked(fwd, all, rec); err != nil {
		fwd.cancel()
		return err
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
	outdated := fwd != nil && ((fwd.ofPage("") != nil) != s.hasPageLocked() || !slices.Equal(fwd.specs(false), specs))
	if outdated {
		s.forward = nil
	}
	s.mu.Unlock()
	if outdated {
		fwd.close()
	}
}

// keepPorts remembers the local ports that were picked, for the next up, and publishes a
// notice for each port that is not the wanted one.
func (s *session) keepPorts() {
	s.mu.Lock()
	fwd := s.forward
	page, picked := fwd.ports()
	list := fwd.status()
	s.mu.Unlock()
	for _, f := range list {
		if f.Note != "" {
			s.agent.hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Session: s.name, Text: f.Note}})
		}
	}
	if fwd != nil { // else it was taken down meanwhile
		_ = s.record(func(r *state.Session) { r.KeepPorts(page, picked) }, nil)
	}
}

// openLocked adds new forwards and serves them, all or none.
func (s *session) openLocked(fwd *forwards, all []*sessionForward, rec state.Session) error {
	for i, x := range all {
		if err := s.openOne(x, rec); err != nil {
			for _, x := range all[:i] {
				if x.local != nil {
					_ = x.local.Close()
				}
			}
			return err
		}
	}
	for _, x := range all {
		var ctx context.Context
		ctx, x.stop = context.WithCancel(fwd.ctx)
		fwd.done.Go(func() {
			defer x.stop()
			if x.remote != nil {
				s.agent.report("forward", x.remote.Serve(ctx))
			} else {
				s.agent.report("forward", x.local.Serve(ctx))
			}
		})
	}
	fwd.list = append(fwd.list, all...)
	// The other pages are last.
	slices.SortStableFunc(fwd.list, func(x, y *sessionForward) int { return strings.Compare(x.page, y.page) })
	return nil
}

// openOne opens a forward with the session's settings, where it listened last.
func (s *session) openOne(x *sessionForward, rec state.Session) (err error) {
	switch {
	case x.page != "":
		if x.local, err = s.openListener(forward.ListenOptions{Last: rec.Ports[x.page]}); err != nil {
			return api.Errorf(api.CodeForward, "no local port for %s of %s: %w", x.page, s.name, err)
		}
	case x.isPage:
		if x.local, err = s.openListener(forward.ListenOptions{Port: s.cfg.Local, Last: rec.Port}); err != nil {
			return api.Errorf(api.CodeForward, "no local port for %s: %w", s.name, err)
		}
	case x.spec.Kind == api.ForwardRemote:
		x.remote = forward.NewRemote(forward.RemoteOptions{
			Name: s.name, Listen: s.agent.pool.Host(s.cfg.Host).Listen,
			Network: network(x.spec.Listen), Address: x.spec.Listen,
			LocalNetwork: network(x.spec.Target), LocalAddress: x.spec.Target,
			Changed: func() { s.change(func(*facts.Facts) {}) },
			Log:     s.agent.log,
		})
	default:
		o, err := listenOptions(x.spec, rec.Ports[x.spec.String()])
		if err == nil {
			x.local, err = s.openListener(o)
		}
		if err != nil {
			return api.Errorf(api.CodeForward, "forward %s: %w", x.spec, err)
		}
	}
	return nil
}

// listenOptions say where the forward of a spec listens; last is its port of the last time.
func listenOptions(spec configs.ForwardSpec, last int) (forward.ListenOptions, error) {
	o := forward.ListenOptions{Kind: spec.Kind}
	if network(spec.Listen) == "unix" {
		o.UnixPath = spec.Listen
		return o, nil
	}
	bind, port, err := net.SplitHostPort(spec.Listen)
	if err != nil {
		return o, err
	}
	if spec.PicksPort() {
		o.Last = last
	}
	switch bind {
	case "127.0.0.1", "localhost": // the loopback pair, ::1 included, is the default
	case "":
		o.Bind = "*"
	default:
		o.Bind = bind
	}
	o.Port, err = strconv.Atoi(port)
	return o, err
}

// openListener opens a listener with the session's settings.
func (s *session) openListener(o forward.ListenOptions) (*forward.Forward, error) {
	o.Name, o.Shared, o.Hosts, o.Ports, o.Log = s.name, s.cfg.Shared, s.cfg.AllowHosts, s.ports, s.agent.log
	o.Waiting = func(person bool) { s.agent.pool.Host(s.host()).Waiting(person) }
	return forward.Listen(o)
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

// applyLocked leads the forwards to their targets; those without one show why. The listener
// of one on the host ends with the connection to the host, and is requested again after it.
func (s *session) applyLocked(v facts.Derived, why forward.Reason) {
	f := s.forward
	if f == nil {
		return
	}
	connected, ready := s.facts.Wanted && s.facts.Host.State == api.HostUp, v.State == api.SessionReady
	for _, x := range f.list {
		switch {
		case x.remote == nil && x.page != "" && ready: // the log was read
			x.set(s.targetLocked(x, ready), facts.NotAnnounced(x.page))
		case x.remote == nil:
			x.set(s.targetLocked(x, ready), why)
		case connected && !f.connected:
			x.remote.Retry()
		}
	}
	f.connected = connected
}

// targetLocked decides what a forward leads to; nil: it waits. The main page is open over its
// proven route once the session is ready; the other forwards of a session with a job lead to
// the job's node while it runs, those of a session without one through the host.
func (s *session) targetLocked(x *sessionForward, ready bool) *forward.Target {
	fixed := &forward.Target{Network: network(x.spec.Target), Address: x.spec.Target}
	switch {
	case x.isPage && x.page == "":
		if ready && s.facts.Link == "" {
			return s.route.Target()
		}
		return nil
	case s.hasJobLocked() && !s.facts.JobRuns():
		return nil
	case x.isPage:
		p := s.otherLocked(x.page)
		if p == nil {
			return nil // it is not announced
		}
		// Connections in advance would be sent to a page that nobody looks at.
		ep := p.Endpoint()
		return &forward.Target{Dialer: p, Network: "tcp", Address: ep.Address(), HTTP: true, HasToken: !ep.Token.IsZero(), Limited: true}
	case s.hasJobLocked():
		fixed.Dialer = nodeDialer{session: s, job: s.facts.Job.Ref(), node: s.facts.Job.Node, restarts: s.facts.Job.Restarts}
	case ready:
		fixed.Dialer = s.agent.pool.Host(s.cfg.Host)
	default:
		return nil
	}
	return fixed
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

// network is the network of an address: a path is a unix socket.
func network(address string) string {
	if strings.ContainsRune(address, '/') {
		return "unix"
	}
	return "tcp"
}

// fixedSpecs are the forwards of the config.
func (s *session) fixedSpecs(ctx context.Context) ([]configs.ForwardSpec, error) {
	cfg := s.config()
	if cfg.ForwardSSHConfig {
		return s.sshForwards(ctx, cfg.Host)
	}
	return cfg.Forward, nil
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
		return nil, api.Errorf(api.CodeConfig, "no forwards for %s in the ssh config", host).
			WithHint(`add LocalForward lines there, or set forward = ["5432:db.int:5432"] in the config`)
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
