// Package forward owns the local side of forwards: listeners that keep their port while
// the target comes and goes, the relay between a client and the target, the page that a
// browser gets while there is no target, and listeners on a host that lead to an address
// here. It reaches a target through a [Dialer]; it knows nothing about SSH, sessions or
// the agent.
package forward

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
)

// A Dialer connects to an address through a host. Its errors wrap [api.ErrDown],
// [api.ErrRefused] or [api.ErrProhibited] where one of them applies.
type Dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// An UpgradeDialer connects a client that asks for another protocol, and sends its request, which
// it does again if nothing answers. Its errors are those of a Dialer.
type UpgradeDialer interface {
	DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error)
}

// DirectConn is a connection of an UpgradeDialer that ends with the one to the host, while others
// of it continue.
type DirectConn struct{ net.Conn }

// DirectUpgrades goes the way of other clients.
type DirectUpgrades struct{ Dialer }

// DialUpgrade implements UpgradeDialer.
func (d DirectUpgrades) DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error) {
	conn, err := d.Dial(ctx, network, address)
	if err == nil {
		_, _ = conn.Write(request) // if the connection was lost, a read says so
	}
	return conn, err
}

// Target is where a forward's connections go.
type Target struct {
	Dialer  Dialer
	Network string // "tcp" or "unix"; the clients of a dynamic forward name their own
	Address string
	// Upgrades, if set, connects clients whose first request asks for another protocol, such as
	// WebSocket. It is used only with HTTP. An upgrade later on a connection stays on the
	// connection; browsers open one of its own for each WebSocket.
	Upgrades UpgradeDialer
	// HTTP is set if browsers connect to the target and the client sends first: a
	// failed dial is answered with a page, and connections are opened in advance.
	HTTP bool
	// Token is what the server there requires; zero: none, or it is not known. Requests to a
	// server without one must use a name of this machine.
	Token api.Secret
	// Limited is set if a connection costs more than a round trip: none is opened in
	// advance.
	Limited bool
}

// Reason tells the user why a forward has no target.
type Reason struct {
	Kind  ReasonKind
	Title string // "Waiting in the queue"
	// Text explains it. Its first line is a sentence; the other lines are the output
	// of a program. Text in backticks, here and in Hint, is a command.
	Text  string
	Steps []Step // on the way to the target
	Facts []Fact // what else is known
	Hint  string // what to do about it in a terminal
	Tray  string // where the tray's menu does the same
	Since time.Time
	// Transient is set if it passes within seconds without the user's help, so that a
	// client should wait.
	Transient bool
}

// ReasonKind is what a reason requires of the user.
type ReasonKind string

// The kinds of reasons.
const (
	ReasonProgress  ReasonKind = ""          // nothing: it passes
	ReasonAttention ReasonKind = "attention" // an action, after which it continues
	ReasonTrouble   ReasonKind = "trouble"   // to fix something
)

// Fact is a named value that a waiting page shows.
type Fact struct{ Name, Value string }

// Step is a step on the way to a target.
type Step struct {
	Text  string
	State StepState
	Since time.Time     // of the current one
	Took  time.Duration // of one that is done; 0: not known
}

// StepState says where a step is. The values are classes of the page's style.
type StepState string

// The states of steps.
const (
	StepComing  StepState = "coming"
	StepCurrent StepState = "current"
	StepDone    StepState = "done"
)

// ListenOptions describe the local side of a forward.
type ListenOptions struct {
	Name string          // the session's, for people
	Kind api.ForwardKind // local, if empty, or dynamic: a SOCKS5 server
	Port int             // the wanted port, or 0
	Last int             // the port of the last time, or 0
	// Bind is the address to listen on instead of 127.0.0.1 and ::1; "*" is all. A
	// listener beyond loopback is open to everybody who reaches it.
	Bind     string
	UnixPath string // a unix socket instead of a port
	// Shared admits other users of this machine. By default they are refused, where
	// the system can tell them apart.
	Shared bool
	Hosts  []string // allowed in a request's Host and Origin besides the names of this machine
	// LocalToken, if set, is the token of this computer's own that clients may send in place of
	// the target's; "" is none.
	LocalToken func() string
	// Ports, if set, are those of all forwards of the session: their pages may use each
	// other.
	Ports   func() []int
	HoldFor time.Duration // how long clients wait for a target; 30 s if zero
	// Waiting, if set, is called repeatedly while a client or a waiting page waits for a
	// target: with true if the user has just asked for a page.
	Waiting func(person bool)
	// Dashboard, if set, is the address of a page to which waiting pages link; "" is none.
	Dashboard func() string
	Log       *slog.Logger
}

// Forward is a local listener whose connections go to a target through a host.
// It keeps its port while the target comes and goes.
type Forward struct {
	o     ListenOptions // without zero values, but for Dashboard
	log   *slog.Logger
	local *localListener
	hosts allowedHosts

	counters counters
	buffers  buffers
	conns    sync.WaitGroup

	ctx    context.Context // ends with Serve
	cancel context.CancelFunc

	mu    sync.Mutex
	state *targetState
}

// targetState is what a forward leads to between two calls of Open or Withdraw.
type targetState struct {
	target *Target // nil: withdrawn
	reason Reason
	// trusted is set if the requests of clients need no check: this target, or the
	// last one, has a token.
	trusted bool
	warm    *warmPool // nil: no connections are opened in advance

	ctx    context.Context // ends when the state is replaced
	cancel context.CancelFunc
}

// replaced reports whether the forward has another state.
func (s *targetState) replaced() bool { return s.ctx.Err() != nil }

// Listen opens the local side of a forward. A wanted port that is in use is no
// error: another one is used, and [Forward.Note] says so. Clients can connect from now
// on; they are served once Serve runs and Open was called.
func Listen(o ListenOptions) (*Forward, error) {
	var local *localListener
	var err error
	if o.UnixPath != "" {
		local, err = listenUnix(o.UnixPath, o.Shared)
	} else {
		local, err = listenTCP(o.Bind, o.Port, o.Last)
	}
	if err != nil {
		return nil, err
	}
	return newForward(o, local), nil
}

func newForward(o ListenOptions, local *localListener) *Forward {
	o.Kind, o.HoldFor = cmp.Or(o.Kind, api.ForwardLocal), cmp.Or(o.HoldFor, 30*time.Second)
	o.Shared = o.Shared || local.onNetwork()
	if o.Waiting == nil {
		o.Waiting = func(bool) {}
	}
	f := &Forward{
		o: o, local: local, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("forward", o.Name),
		hosts: allowedHosts{listed: o.Hosts, network: local.onNetwork(), ports: o.Ports},
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.setState(nil, Reason{Title: "Starting " + cmp.Or(o.Name, "the forward"), Transient: true})
	return f
}

// Serve accepts clients until ctx ends. Then it closes the listeners and every
// connection, and returns when all goroutines of the forward have ended.
func (f *Forward) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(f.local.listeners))
	for _, l := range f.local.listeners {
		f.conns.Go(func() { failed <- f.accept(ctx, l) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	err = errors.Join(err, f.Close())
	f.conns.Wait()
	return err
}

// accept serves the clients of one listener until ctx ends.
func (f *Forward) accept(ctx context.Context, l net.Listener) error {
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	wait := minPause
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Out of file descriptors, or a client that left before it was
			// accepted: the listener still works.
			f.log.Warn("accepting a connection failed", "err", err)
			if !ctxtime.SleepUntil(ctx, time.Now().Add(wait), nil) {
				return nil
			}
			wait = min(2*wait, maxPause)
		default:
			wait = minPause
			f.conns.Go(func() { f.handle(ctx, conn) })
		}
	}
}

// Close releases the port of a forward that is not served. Serve does the same when
// its context ends.
func (f *Forward) Close() error {
	f.cancel()
	return f.local.close()
}

// Open sends connections to t from now on, including those that wait. Established
// connections keep their target. Connections that were opened in advance are closed,
// even if the target is the same.
func (f *Forward) Open(t Target) {
	if f.o.LocalToken != nil {
		t = exchangeTokens(t)
	}
	f.setState(&t, Reason{})
}

// Withdraw removes the target. Established connections stay; new ones wait, or get r
// as an answer.
func (f *Forward) Withdraw(r Reason) { f.setState(nil, r) }

func (f *Forward) setState(t *Target, r Reason) {
	next := &targetState{target: t, reason: r}
	next.ctx, next.cancel = context.WithCancel(f.ctx)
	if t != nil && t.HTTP && !t.Limited && f.o.Kind == api.ForwardLocal {
		dial := func(ctx context.Context) (net.Conn, error) { return t.Dialer.Dial(ctx, t.Network, t.Address) }
		next.warm = newWarmPool(next.ctx, dial, f.conns.Go)
	}
	f.mu.Lock()
	f.counters.failure.Store(nil) // it was about the last target
	last := f.state
	switch {
	case t != nil:
		next.trusted = !t.Token.IsZero()
	case last != nil:
		next.trusted = last.trusted
	}
	f.state = next
	f.mu.Unlock()
	if last != nil {
		last.cancel()
	}
}

func (f *Forward) current() *targetState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Status reports where the forward listens, its target, and what it has relayed.
func (f *Forward) Status() api.Forward {
	s := api.Forward{Kind: f.o.Kind, Listen: f.local.String(), Note: f.local.note, Shared: f.o.Shared}
	if t := f.current().target; t != nil && f.o.Kind != api.ForwardDynamic {
		s.Target = t.Address
	}
	f.counters.fill(&s)
	return s
}

// Addr is the address that the forward listens on: 127.0.0.1 of a loopback pair, zero
// for a unix socket.
func (f *Forward) Addr() netip.AddrPort { return f.local.addr }

// Port is the port that the forward listens on, 0 for a unix socket.
func (f *Forward) Port() int { return f.local.port() }

// URLHost is the host of a URL that certainly leads here: "localhost:8888", or
// "127.0.0.1:8888" if the port on ::1 may belong to another program.
func (f *Forward) URLHost() string { return f.local.urlHost }

// Note tells the user that the wanted port is in use, and by which program. It is
// empty if the forward listens where it should.
func (f *Forward) Note() string { return f.local.note }
