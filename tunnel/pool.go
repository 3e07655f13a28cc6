// Package tunnel keeps one SSH connection per host: it dials, logs in, keeps the
// connection alive and restores it. It runs commands and dials over that connection.
//
// The packages below it know one thing each: settings (sshconfig), the host's key
// (hostkey), the user's keys (userkeys), the ssh program (openssh), what a failure was
// (failure) and what follows from it (retry), how many channels there may be (channels) and
// how fast bulk data moves (pace). Above it, tunnel/node gets onto compute nodes by a
// [Link], and tunnel/forward listens here.
//
// A [Pool] owns the hosts; a [Host] is a login node by its name. Getting a host dials
// nothing: [Host.Up] says that the user wants it now, [Host.Want] that it is wanted
// though no user may be present, [Host.Down] that it is not. One goroutine per host
// acts on that. It respects limits that keep the user from being locked out ([Limits]).
//
// Questions to the user go through a [Prompter]. What must outlive the process goes
// through a [Memory]. The package knows nothing of jobs, of the config file or of the
// agent's API; it uses the types of internal/api.
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
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/internal/lists"
	"tunctl/internal/netwatch"
	"tunctl/tunnel/retry"
	"tunctl/tunnel/sshconfig"
	"tunctl/tunnel/userkeys"
)

// Options configure a Pool. Only Askpass and Network may be zero.
type Options struct {
	// Resolver reads the settings of hosts as the config says now; each dial calls it. Its
	// environment and its timeout are the pool's.
	Resolver  func() sshconfig.Resolver
	Prompter  Prompter
	Memory    Memory
	Passwords userkeys.Passwords
	// Passphrase is that of a key that tunctl has made; see [userkeys.Options].
	Passphrase func(ctx context.Context, path string) (string, error)
	Limits     Limits
	Log        *slog.Logger
	// Askpass is the program that forwards ssh's questions; see [openssh.Askpass]. "": ssh may
	// ask nothing.
	Askpass string
	// Changed is called for every change of a host: in order, one at a time, and with no
	// lock held.
	Changed func(api.Host)
	// Envs are the environments that clients sent, the newest first, or one that is nil. The
	// ssh-agent that the newest one names may have ended, so each is tried.
	Envs func() []api.Env
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

	network Network // tests replace it

	sharing sharing

	mu      sync.Mutex
	hosts   map[string]*Host
	queue   []api.Host // changes not yet published
	serving context.Context
	wg      sync.WaitGroup
}

// NewPool makes a pool without hosts. Nothing is dialled until Serve runs.
func NewPool(o Options) *Pool {
	p := &Pool{
		o: o, hosts: map[string]*Host{},
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
	r := p.o.Resolver()
	r.Env, r.Timeout = p.o.Envs()[0], p.o.Limits.SettingsTimeout
	return r.Settings(ctx, name)
}

// Reload says that the config may have changed. It disconnects nothing. A connected host
// whose settings changed is marked as outdated and uses them from its next dial on; a
// waiting host with a new address is tried again. Its caller may hold a host's lock.
func (p *Pool) Reload() { latest.Signal(p.reloaded) }

// serveReloads compares the settings in use with the current ones after each Reload.
func (p *Pool) serveReloads(ctx context.Context) {
	for ctxtime.SleepUntil(ctx, time.Time{}, p.reloaded) {
		for _, h := range p.allHosts() {
			h.recheckSettings(ctx)
		}
	}
}

// Hosts lists the hosts by name.
func (p *Pool) Hosts() []api.Host { return lists.Map(p.allHosts(), (*Host).Status) }

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
	latest.Signal(p.queued)
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

// GCPercent is the setting of Go's collector (debug.SetGCPercent) for a process that
// forwards. x/crypto allocates 32 KB for each packet; at the usual setting, a process
// of few megabytes collects after every hundred of them.
const GCPercent = 400

// A Prompter asks the user, and calls asked once somebody sees the question. It returns
// when there is an answer, when ctx ends, or, with an error that wraps failure.ErrNobody, when
// nobody can be asked.
type Prompter interface {
	Prompt(ctx context.Context, p api.Prompt, asked func()) (api.Answer, error)
}

// A Memory remembers a few facts per host and outlives the process: an agent that crashes and
// starts again must not log in more often than one that runs on.
type Memory interface {
	Known(host string) api.Known
	Remember(host string, change func(*api.Known))
}

// Limits are the waits and counts that keep the load on a login node low and the user
// from being locked out. Every field but SitePause must be positive.
//
// What may take how long depends on who is waited for. A network that was gone is given
// all the time that TCP has: what does not respond is told soon and given up late. A host
// is given what a busy one takes, and spared. The user is given minutes.
type Limits struct {
	// Limits are those of the rules by which a host is tried again and logged in to.
	retry.Limits

	// For the network: reaching a host, and what becomes of a connection to it.

	// DialTimeout bounds reaching the host's port.
	DialTimeout time.Duration
	// BannerTimeout bounds the wait for the server's first line. An open port that sends
	// nothing is a captive portal or a VPN that is down.
	BannerTimeout time.Duration
	// WaitedBanner is BannerTimeout while the user waits: the connection is used as soon as
	// the server responds.
	WaitedBanner time.Duration
	// KeepaliveEvery is the silence after which a keepalive is sent, and KeepaliveMax how
	// many in a row may go unanswered before the connection is set aside.
	KeepaliveEvery time.Duration
	KeepaliveMax   int
	// ProbeTimeout bounds the reply to the probe after a network change, before the
	// connection is set aside and a new login begins.
	ProbeTimeout time.Duration
	// Unacknowledged is how long the host's system may send nothing that was due before the
	// host is shown as not responding. A stall of three seconds costs TCP up to seven.
	Unacknowledged time.Duration
	// LossyUnanswered replaces it, and Unanswered, on a link that loses many packets.
	LossyUnanswered time.Duration
	// ReplaceUnanswered is how much later the connection is set aside and a new login begins,
	// if that needs nobody.
	ReplaceUnanswered time.Duration
	// KeepReplaced is how long a connection that was replaced may stay silent while channels
	// are open on it. TCP waits up to two minutes before it sends the same bytes again.
	KeepReplaced time.Duration

	// For the host: how long it may take, and what it is spared.

	// HandshakeTimeout bounds key exchange and login, less the time the user takes
	// to answer.
	HandshakeTimeout time.Duration
	// ProbeAfter is how long a client's bytes may stay unanswered before a keepalive is
	// sent, and InUse how long after the client's last bytes that is done.
	ProbeAfter time.Duration
	InUse      time.Duration
	// Unanswered is how long its SSH server may send nothing that was due before the host is
	// shown as not responding.
	Unanswered time.Duration
	// MaxSessions is how many commands run at once over one connection. sshd's
	// own default limit is 10.
	MaxSessions int
	// SessionsAgain is how long to wait before trying one session more than the server
	// last allowed.
	SessionsAgain time.Duration
	// NodeDial bounds the dial of each name of a compute node.
	NodeDial time.Duration
	// NodeIdle is how long a connection to a compute node is kept after its last stream.
	NodeIdle time.Duration
	// StepStart is how long a job step may take to start before another way is tried.
	StepStart time.Duration
	// StepIdle is how long a job step is kept after its last channel.
	StepIdle time.Duration

	// For the user, and this computer.

	// PromptTimeout bounds how long the user may take to answer one question.
	PromptTimeout time.Duration
	// WakeGrace is ProbeTimeout for a connection that only the user can restore, before they
	// are asked to log in, unless they want the host just then.
	WakeGrace time.Duration
	// SettingsTimeout bounds one run of `ssh -G`, which runs Match exec commands.
	SettingsTimeout time.Duration
}

// DefaultLimits are the limits for real hosts.
func DefaultLimits() Limits {
	return Limits{
		Limits: retry.Limits{
			RetryMin:     5 * time.Second,
			RetryMax:     15 * time.Minute,
			LoginSpacing: time.Minute,
			StableAfter:  5 * time.Minute,
			Refusals:     2,
			BanWait:      time.Hour,
			WatchedMin:   10 * time.Second,
			WatchedMax:   time.Minute,
			WatchedFor:   30 * time.Minute,
		},
		SettingsTimeout:   15 * time.Second,
		DialTimeout:       15 * time.Second,
		BannerTimeout:     10 * time.Second,
		HandshakeTimeout:  30 * time.Second,
		PromptTimeout:     2 * time.Minute,
		KeepaliveEvery:    30 * time.Second,
		KeepaliveMax:      3,
		ProbeTimeout:      3 * time.Second,
		WakeGrace:         45 * time.Second,
		ProbeAfter:        2 * time.Second,
		InUse:             30 * time.Second,
		Unacknowledged:    7 * time.Second,
		Unanswered:        12 * time.Second,
		LossyUnanswered:   30 * time.Second,
		ReplaceUnanswered: 8 * time.Second,
		KeepReplaced:      2 * time.Minute,
		WaitedBanner:      5 * time.Minute,
		MaxSessions:       8,
		SessionsAgain:     time.Minute,
		NodeDial:          4 * time.Second,
		NodeIdle:          time.Minute,
		StepStart:         5 * time.Second,
		StepIdle:          5 * time.Minute,
	}
}

// within returns the limits for a host: those of its site where they are stricter, and the user's
// own keepalive.
func (l Limits) within(s *sshconfig.Settings) Limits {
	if s.MaxSessions > 0 {
		l.MaxSessions = min(l.MaxSessions, s.MaxSessions)
	}
	if s.Refusals > 0 {
		l.Refusals = min(l.Refusals, s.Refusals)
	}
	if s.ServerAliveInterval > 0 {
		l.KeepaliveEvery = s.ServerAliveInterval
		l.KeepaliveMax = max(s.ServerAliveCountMax, 1)
		l.KeepReplaced = l.KeepaliveEvery * time.Duration(l.KeepaliveMax)
	}
	l.LoginSpacing = max(l.LoginSpacing, s.LoginSpacing)
	l.SitePause = s.RetryMin
	l.RetryMin = max(l.RetryMin, s.RetryMin)
	l.RetryMax = max(l.RetryMax, l.RetryMin)
	return l
}

// PracticeLimits are short, for a practice cluster that bans nobody. Login keeps its normal
// time, and replies have long: programs start on a laptop that may be busy.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.DialTimeout = 3 * time.Second
	l.LoginSpacing = 200 * time.Millisecond
	l.RetryMin = 100 * time.Millisecond
	l.RetryMax = 2 * time.Second
	l.StableAfter = time.Second
	l.BanWait = 5 * time.Second
	l.KeepaliveEvery = time.Second
	l.KeepaliveMax = 10 // more than Unanswered, as on real hosts
	l.WakeGrace = 10 * time.Second
	l.ProbeAfter = 500 * time.Millisecond
	l.ProbeTimeout, l.ReplaceUnanswered = 8*time.Second, 3*time.Second
	l.Unacknowledged, l.Unanswered, l.LossyUnanswered = 8*time.Second, 8*time.Second, 8*time.Second
	l.WatchedMin, l.WatchedMax = 200*time.Millisecond, time.Second
	l.StepStart = 20 * time.Second // as above: a program starts
	return l
}
