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
	"tunctl/internal/netwatch"
	"tunctl/tunnel/sshconfig"
)

// Options are what a Pool needs of the world. Everything but Limits may be zero.
type Options struct {
	SSHConfig string    // the ssh_config to read, as ssh -F; "" = the person's own; see Reload
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
	// Target and Preset are those of a [sshconfig.Resolver]. They are asked for each dial.
	Target func(name string) string
	Preset func(name string, s *sshconfig.Settings)
	// Spelling says what is known of a host's name that cannot be reached.
	Spelling func(name string) Spelling
}

// Pool owns the hosts and their connections.
type Pool struct {
	o        Options
	keys     keyring
	news     chan struct{} // something to publish
	reloaded chan struct{} // the config changed

	// The ways to the world outside, replaced in tests; resolve is nil unless it is.
	resolve func(ctx context.Context, destination string) (sshconfig.Settings, error)
	dial    func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error)
	lookup  func(ctx context.Context, host string) ([]string, error)
	watch   func(ctx context.Context, changed func(), log *slog.Logger)

	mu        sync.Mutex
	sshConfig string // as Options.SSHConfig, or what Reload said last
	hosts     map[string]*Host
	owners    map[string]*Host // by identity: who has the connection there, or is making it
	queue     []api.Host       // changes not yet published
	serving   context.Context
	wg        sync.WaitGroup
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
		o.Preset = func(string, *sshconfig.Settings) {}
	}
	if o.Spelling == nil {
		o.Spelling = func(string) Spelling { return Spelling{Written: true} }
	}
	p := &Pool{
		o: o, sshConfig: o.SSHConfig, hosts: map[string]*Host{}, owners: map[string]*Host{},
		news: make(chan struct{}, 1), reloaded: make(chan struct{}, 1),
		watch: netwatch.Watch, lookup: net.DefaultResolver.LookupHost,
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
	p.wg.Go(func() { p.serveReloads(ctx) })
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
	return p.host(name, func() *Host {
		return newHost(p, name)
	})
}

// host returns the host of that name, made by make the first time.
func (p *Pool) host(name string, create func() *Host) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.hosts[name]; ok {
		return h
	}
	made := create()
	p.hosts[name] = made
	if p.serving != nil {
		p.startLocked(made)
	}
	return made
}

// resolver reads settings as of now.
func (p *Pool) resolver() sshconfig.Resolver {
	p.mu.Lock()
	file := p.sshConfig
	p.mu.Unlock()
	return sshconfig.Resolver{SSHConfig: file, Env: p.o.Env(), Timeout: p.o.Limits.SettingsTimeout, Target: p.o.Target, Preset: p.o.Preset, Read: p.resolve}
}

// Settings are what the next dial of the host of that name would go by. The host need
// not be in the pool, and nothing is dialled.
func (p *Pool) Settings(ctx context.Context, name string) (sshconfig.Settings, error) {
	return p.resolver().Settings(ctx, name)
}

// Reload says that the config may have changed, and which ssh_config it now names.
// Nothing is disconnected: a connected host whose settings are others now says so, and
// goes by them from its next dial on; one that waits with a new address is tried again.
func (p *Pool) Reload(sshConfig string) {
	p.mu.Lock()
	p.sshConfig = sshConfig
	p.mu.Unlock()
	p.rereadSoon()
}

// rereadSoon has the hosts' settings compared; its caller may hold a host's lock.
func (p *Pool) rereadSoon() {
	select {
	case p.reloaded <- struct{}{}:
	default:
	}
}

// serveReloads compares what hosts go by with what their settings are now, after each
// Reload.
func (p *Pool) serveReloads(ctx context.Context) {
	for {
		select {
		case <-p.reloaded:
		case <-ctx.Done():
			return
		}
		for _, h := range p.all() {
			h.reread(ctx)
		}
	}
}

// owner is the host that has the connection of that identity, or is making it; the
// first to ask becomes it. Two names for one account share one login.
func (p *Pool) owner(h *Host, identity string) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.owners[identity]; o != nil {
		return o
	}
	p.owners[identity] = h
	return h
}

// disown ends a host's ownership of every connection but one; "" is none.
func (p *Pool) disown(h *Host, except string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.owners, func(identity string, o *Host) bool { return o == h && identity != except })
}

// Hosts are those made so far, by name, without the compute nodes that only a session or
// a stream uses.
func (p *Pool) Hosts() []api.Host {
	list := []api.Host{}
	for _, h := range p.all() {
		h.mu.Lock()
		if !h.quiet {
			list = append(list, h.view)
		}
		h.mu.Unlock()
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
