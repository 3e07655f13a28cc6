package tunnel

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
)

// Options are what a Pool needs of the world. Everything but Limits may be zero.
type Options struct {
	SSHConfig string    // the ssh_config to read, as ssh -F; "" = the person's own
	Prompter  Prompter  // nil: nobody can be asked
	Memory    Memory    // nil: remembered for the pool's life only
	Passwords Passwords // nil: none are kept
	Limits    Limits
	Log       *slog.Logger
	// Askpass is the program that passes questions of ssh on; see [Askpass]. "": ssh
	// may ask nothing.
	Askpass string
	// Changed is told of every change of a host, in order, one at a time, and
	// outside all locks.
	Changed func(api.Host)
	// Env is the newest environment a client sent.
	Env func() api.Env
	// EarlierEnvs are those of other clients before it, the newest first: an ssh-agent is
	// looked for in each, since the newest may name one that is gone.
	EarlierEnvs func() []api.Env
	// Target turns a host's name into an ssh destination; nil: they are the same.
	Target func(name string) string
	// Preset fills in what is known about a host and its settings leave open; nil:
	// nothing is.
	Preset func(name string, s *Settings)
}

// Pool owns the hosts and their connections.
type Pool struct {
	o    Options
	keys keyring
	news chan struct{} // something to publish

	// The ways to the world outside, replaced in tests.
	resolve func(ctx context.Context, destination string) (Settings, error)
	dial    func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error)
	lookup  func(ctx context.Context, host string) ([]string, error)
	watch   func(ctx context.Context, changed func(), log *slog.Logger)

	mu      sync.Mutex
	hosts   map[string]*Host
	owners  map[string]*Host // by Settings.key: who holds the connection there
	queue   []api.Host       // changes not yet published
	serving context.Context
	wg      sync.WaitGroup
}

// NewPool makes a pool with no hosts. Nothing happens until Serve runs.
func NewPool(o Options) *Pool {
	if o.Prompter == nil {
		o.Prompter = nobody{}
	}
	if o.Memory == nil {
		o.Memory = newBriefMemory()
	}
	if o.Passwords == nil {
		o.Passwords = noPasswords{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(api.Host) {}
	}
	if o.Env == nil {
		o.Env = func() api.Env { return nil }
	}
	if o.EarlierEnvs == nil {
		o.EarlierEnvs = func() []api.Env { return nil }
	}
	if o.Target == nil {
		o.Target = func(name string) string { return name }
	}
	if o.Preset == nil {
		o.Preset = func(string, *Settings) {}
	}
	p := &Pool{o: o, hosts: map[string]*Host{}, owners: map[string]*Host{}, news: make(chan struct{}, 1), watch: watchNetwork, lookup: net.DefaultResolver.LookupHost}
	p.resolve = func(ctx context.Context, destination string) (Settings, error) {
		return Resolve(ctx, destination, ResolveOptions{SSHConfig: o.SSHConfig, Env: o.Env(), Timeout: o.Limits.SettingsTimeout})
	}
	p.dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}
	return p
}

// Serve brings hosts up and keeps them until ctx ends; then it closes every
// connection and returns when all that it started is gone.
func (p *Pool) Serve(ctx context.Context) error {
	p.mu.Lock()
	p.serving = ctx
	for _, h := range p.hosts {
		p.startLocked(h)
	}
	p.mu.Unlock()

	publishing := make(chan struct{})
	published := make(chan struct{})
	go func() {
		defer close(published)
		p.publish(publishing)
	}()
	p.watch(ctx, p.NetworkChanged, p.o.Log)
	<-ctx.Done()

	p.mu.Lock()
	p.serving = nil
	p.mu.Unlock()
	p.wg.Wait()
	close(publishing)
	<-published
	return nil
}

func (p *Pool) startLocked(h *Host) {
	ctx := p.serving
	p.wg.Go(func() { h.serve(ctx) })
}

// Host returns the host of that name, the same one each time: "a,b" is b, by way of
// a. Nothing is dialled.
func (p *Pool) Host(name string) *Host {
	if hops := strings.Split(name, ","); len(hops) > 1 {
		return p.hop(hops)
	}
	return p.host(name, func() *Host { return newHost(p, name, hopDestination(p.o.Target(name)), nil) })
}

// host returns the host of that name, made by make the first time.
func (p *Pool) host(name string, create func() *Host) *Host {
	p.mu.Lock()
	h, ok := p.hosts[name]
	p.mu.Unlock()
	if ok {
		return h
	}
	made := create() // outside the lock: Target is the caller's code
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.hosts[name]; ok {
		return h
	}
	p.hosts[name] = made
	if p.serving != nil {
		p.startLocked(made)
	}
	return made
}

// owner is the host that holds the connection with these settings; the first to
// connect by them becomes it. Two names for one account share one login.
func (p *Pool) owner(h *Host, key string) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.owners[key]; o != nil {
		return o
	}
	for k, o := range p.owners {
		if o == h {
			delete(p.owners, k) // its settings have changed
		}
	}
	p.owners[key] = h
	return h
}

// Hosts are those made so far, by name.
func (p *Pool) Hosts() []api.Host {
	all := p.all()
	list := make([]api.Host, len(all))
	for i, h := range all {
		list[i] = h.Status()
	}
	return list
}

func (p *Pool) all() []*Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.hosts), func(a, b *Host) int { return strings.Compare(a.name, b.name) })
}

// NetworkChanged begins a new network epoch, after a wake or a change of addresses
// or routes: live connections are probed, waits between tries start over.
func (p *Pool) NetworkChanged() {
	p.o.Log.Debug("network changed")
	for _, h := range p.all() {
		h.networkChanged()
	}
}

// tell queues a change; its caller may hold a host's lock.
func (p *Pool) tell(h api.Host) {
	p.mu.Lock()
	p.queue = append(p.queue, h)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// publish hands queued changes on, in order, until done closes and none is left.
func (p *Pool) publish(done <-chan struct{}) {
	for open := true; open; {
		select {
		case <-p.news:
		case <-done:
			open = false
		}
		p.mu.Lock()
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()
		for _, h := range queue {
			p.o.Changed(h)
		}
	}
}
