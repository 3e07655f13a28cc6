package tunnel

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/netwatch"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// Options configure a Pool. Only SSHConfig, Askpass, Target, Preset and Network may be zero.
type Options struct {
	SSHConfig string // the ssh_config to read, as ssh -F; "" = the user's own; see Reload
	Prompter  Prompter
	Memory    Memory
	Passwords userkeys.Passwords
	Limits    Limits
	Log       *slog.Logger
	// Askpass is the program that forwards ssh's questions; see [openssh.Askpass]. "": ssh may
	// ask nothing.
	Askpass string
	// Changed is called for every change of a host: in order, one at a time, and with no
	// lock held.
	Changed func(api.Host)
	// Envs are the environments that clients sent, the newest first, or one that is nil. The
	// ssh-agent that the newest one names may have ended, so each is tried.
	Envs func() []api.Env
	// Target and Preset are those of a [sshconfig.Resolver]. Each dial calls them again.
	Target func(name string) string
	Preset func(name string, s *sshconfig.Settings)
	// Spelling is called when a host's name cannot be reached.
	Spelling func(name string) Spelling
	// Network replaces the system's, for a simulation; nil: it does not.
	Network *Network
}

// Network is what a pool needs of a network.
type Network struct {
	Dial   func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error)
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Watch calls changed after every change of the network, until ctx ends.
	Watch func(ctx context.Context, changed func(), log *slog.Logger)
	// HasAddress reports whether this computer has an address now; nil: it has all.
	HasAddress func(netip.Addr) bool
}

// Pool owns the hosts and their connections.
type Pool struct {
	o        Options
	keys     userkeys.Keyring
	queued   chan struct{} // something to publish
	reloaded chan struct{} // the config changed

	// Tests replace these; resolve is nil otherwise.
	resolve func(ctx context.Context, destination string) (sshconfig.Settings, error)
	network Network

	sharing sharing

	mu        sync.Mutex
	sshConfig string // Options.SSHConfig, or that of the last Reload
	hosts     map[string]*Host
	queue     []api.Host // changes not yet published
	serving   context.Context
	wg        sync.WaitGroup
}

// NewPool makes a pool without hosts. Nothing is dialled until Serve runs.
func NewPool(o Options) *Pool {
	p := &Pool{
		o: o, sshConfig: o.SSHConfig, hosts: map[string]*Host{},
		sharing: sharing{owners: map[string]*Host{}, users: map[*Host]map[*Host]string{}},
		queued:  make(chan struct{}, 1), reloaded: make(chan struct{}, 1),
	}
	p.network = Network{
		Dial: func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			return d.DialContext(ctx, network, address)
		},
		Lookup: net.DefaultResolver.LookupHost, Watch: netwatch.Watch, HasAddress: netwatch.HasAddress,
	}
	if o.Network != nil {
		p.network = *o.Network
	}
	return p
}

// Serve connects hosts and keeps them connected until ctx ends. Then it closes all
// connections, and returns when everything it started has ended.
func (p *Pool) Serve(ctx context.Context) error {
	p.mu.Lock()
	p.serving = ctx
	for _, h := range p.hosts {
		p.startLocked(h)
	}
	p.mu.Unlock()

	done := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() { p.publish(done) })
	p.wg.Go(func() { p.serveReloads(ctx) })
	p.network.Watch(ctx, p.NetworkChanged, p.o.Log)
	<-ctx.Done()

	p.mu.Lock()
	p.serving = nil
	p.mu.Unlock()
	p.wg.Wait()
	close(done)
	publishing.Wait()
	return nil
}

func (p *Pool) startLocked(h *Host) {
	ctx := p.serving
	p.wg.Go(func() { h.serve(ctx) })
}

// Host returns the host of that name, always the same one: "a,b" is b through a. It
// dials nothing.
func (p *Pool) Host(name string) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[name]
	if h == nil {
		h = newHost(p, name, "")
		p.hosts[name] = h
		if p.serving != nil {
			p.startLocked(h)
		}
	}
	return h
}

// env is the newest environment for a program that we run, with an ssh-agent that
// responds if there is one.
func (p *Pool) env(ctx context.Context) api.Env { return userkeys.WithAgent(ctx, p.o.Envs()) }

// Settings are those that the next dial of that host would use. The host need not be in
// the pool, and nothing is dialled.
func (p *Pool) Settings(ctx context.Context, name string) (sshconfig.Settings, error) {
	p.mu.Lock()
	file := p.sshConfig
	p.mu.Unlock()
	r := sshconfig.Resolver{SSHConfig: file, Env: p.o.Envs()[0], Timeout: p.o.Limits.SettingsTimeout, Target: p.o.Target, Preset: p.o.Preset, Read: p.resolve}
	return r.Settings(ctx, name)
}

// Reload says that the config may have changed, and which ssh_config it now names. It
// disconnects nothing. A connected host whose settings changed is marked as outdated and
// uses them from its next dial on; a waiting host with a new address is tried again.
func (p *Pool) Reload(sshConfig string) {
	p.mu.Lock()
	p.sshConfig = sshConfig
	p.mu.Unlock()
	p.recheckSoon()
}

// recheckSoon triggers a comparison of all hosts' settings. Its caller may hold a host's
// lock.
func (p *Pool) recheckSoon() { notify(p.reloaded) }

// serveReloads compares the settings in use with the current ones after each Reload.
func (p *Pool) serveReloads(ctx context.Context) {
	for {
		select {
		case <-p.reloaded:
		case <-ctx.Done():
			return
		}
		for _, h := range p.allHosts() {
			h.recheckSettings(ctx)
		}
	}
}

// Hosts lists the hosts by name.
func (p *Pool) Hosts() []api.Host {
	list := []api.Host{}
	for _, h := range p.allHosts() {
		list = append(list, h.Status())
	}
	return list
}

func (p *Pool) allHosts() []*Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.hosts), func(a, b *Host) int { return strings.Compare(a.name, b.name) })
}

// NetworkChanged is called after a wake-up or a change of addresses or routes:
// connections are probed, and waits after failures to reach a host start over.
func (p *Pool) NetworkChanged() {
	p.o.Log.Debug("network changed")
	for _, h := range p.allHosts() {
		h.networkChanged()
	}
}

// Waiting says of all hosts that somebody waits for them; see [Host.Waiting].
func (p *Pool) Waiting(person bool) {
	for _, h := range p.allHosts() {
		h.Waiting(person)
	}
}

// enqueue queues a change for publish. Its caller may hold a host's lock.
func (p *Pool) enqueue(h api.Host) {
	p.mu.Lock()
	p.queue = append(p.queue, h)
	p.mu.Unlock()
	notify(p.queued)
}

// publish passes queued changes to Changed, in order, until done is closed and the queue
// is empty.
func (p *Pool) publish(done <-chan struct{}) {
	for open := true; open; {
		select {
		case <-p.queued:
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

// identity names the connection that settings lead to: the account and the resolved hops
// before it. Hosts with the same identity share one connection, and what is remembered of
// an account is kept by it: behind another gate, the same address is another machine.
// before are the hops that led here.
func (p *Pool) identity(ctx context.Context, s *sshconfig.Settings, before ...string) (string, error) {
	hop := strings.Join(s.ProxyJump, ",")
	switch {
	case s.ProxyCommand != "":
		return via(s, s.ProxyCommand), nil
	case hop == "":
		return s.Account(), nil
	case slices.Contains(before, hop):
		return via(s, hop), nil // a loop; the dial reports it
	}
	p.mu.Lock()
	last := p.hosts[hop] // it is not added to the pool here
	p.mu.Unlock()
	if last != nil {
		if c, err := last.current(); err == nil {
			return via(s, c.identity), nil // the dial would use that connection, whatever the settings are now
		}
	}
	there, err := p.Settings(ctx, hop)
	if err != nil {
		return "", viaError(hop, err)
	}
	way, err := p.identity(ctx, &there, append(before, hop)...)
	if err != nil {
		return "", err
	}
	return via(s, way), nil
}

// via is the identity of what settings lead to by a way: a ProxyCommand, or the identity of
// the last hop.
func via(s *sshconfig.Settings, way string) string { return s.Account() + " via " + way }
