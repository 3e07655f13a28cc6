// Package forward owns the local side of forwards: listeners that keep their port while
// the target comes and goes, the relay of their connections, the page that a browser gets
// meanwhile, and listeners on a host that lead here. It is given a [Dialer] and knows
// nothing of SSH, of sessions or of the agent.
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
)

// A Dialer connects to an address through a host.
type Dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Target is where a forward's connections go.
type Target struct {
	Dialer  Dialer
	Network string // "tcp" or "unix"; a dynamic forward's clients name their own
	Address string
	// HTTP says that browsers come here and that the client speaks first: a dial
	// that fails is answered by a page, and channels are opened ahead.
	HTTP bool
	// HasToken says that what is served there lets in nobody without its token. To
	// everything else requests pass by a name of this machine only.
	HasToken bool
	// Scarce says that a connection costs more than a round trip: none is opened
	// ahead of need.
	Scarce bool
}

// Reason says why a forward has no target now, in words for a person.
type Reason struct {
	Kind  ReasonKind
	Title string // "Waiting in the queue"
	// Text says more. Its first line is a sentence; the lines after that are output of a
	// program. What stands in backticks, here and in Hint, is a command.
	Text  string
	Facts []Fact // what else is known
	Hint  string // what to do about it in a terminal
	Tray  string // where in the tray's menu that is done
	Since time.Time
	// Transient says that it passes within seconds without anybody's help, so that a
	// client does better to wait than to be told.
	Transient bool
}

// ReasonKind is what a reason asks of a person.
type ReasonKind string

// The kinds of reasons.
const (
	ReasonProgress  ReasonKind = ""          // nothing: it passes
	ReasonAttention ReasonKind = "attention" // to do something, and then it goes on
	ReasonTrouble   ReasonKind = "trouble"   // to fix something
)

// Fact is a thing that is known, under its name.
type Fact struct{ Name, Value string }

// ListenOptions describe the local side of a forward.
type ListenOptions struct {
	Name string          // the session's, for people
	Kind api.ForwardKind // local, if empty, or dynamic: a SOCKS5 server
	Port int             // the wanted port; 0 is none
	Last int             // the port used last; 0 is none
	// Bind is the address to listen on in place of 127.0.0.1 and ::1. "*" is all. One
	// beyond loopback is open to all who reach it.
	Bind     string
	UnixPath string // a unix socket, in place of a port
	// Shared lets other users of this machine in. Without it they are refused, where
	// the system tells them apart.
	Shared  bool
	Hosts   []string      // names by which requests may come besides this machine's own
	HoldFor time.Duration // how long clients wait for a target; 30 s if zero
	Log     *slog.Logger
}

// Forward is a local listener whose connections go to a target through a host.
// It keeps its port while the target comes and goes.
type Forward struct {
	name    string
	kind    api.ForwardKind
	holdFor time.Duration
	log     *slog.Logger
	side    *localSide
	shared  bool
	hosts   hostNames

	counters counters
	buffers  buffers
	conns    sync.WaitGroup

	life context.Context // ends with Serve, and with it every footing
	end  context.CancelFunc

	mu  sync.Mutex
	now *footing
}

// footing is what a forward stands on between two calls of Open and Withdraw.
type footing struct {
	target *Target // nil: withdrawn
	reason Reason
	// trusted says that its clients' requests need not be checked: the target, or the
	// last one, has a token.
	trusted bool
	warm    *warmPool // nil: no channels are opened ahead

	ctx context.Context // ends when the footing is replaced
	end context.CancelFunc
}

// changed is closed when there is another footing.
func (n *footing) changed() <-chan struct{} { return n.ctx.Done() }

// stale reports whether there is another footing.
func (n *footing) stale() bool { return n.ctx.Err() != nil }

// onChange calls do when there is another footing, unless stop is called before.
func (n *footing) onChange(do func()) (stop func() bool) { return context.AfterFunc(n.ctx, do) }

// Listen opens the local side of a forward. A wanted port that is taken is no
// error: another is used, and [Forward.Note] says so. Clients wait from now on,
// and are served once Serve runs and Open was called.
func Listen(o ListenOptions) (*Forward, error) {
	var side *localSide
	var err error
	if o.UnixPath != "" {
		side, err = listenUnix(o.UnixPath, o.Shared)
	} else {
		side, err = listenTCP(o.Bind, o.Port, o.Last)
	}
	if err != nil {
		return nil, err
	}
	return newForward(o, side), nil
}

func newForward(o ListenOptions, side *localSide) *Forward {
	f := &Forward{
		name:    o.Name,
		kind:    cmp.Or(o.Kind, api.ForwardLocal),
		holdFor: cmp.Or(o.HoldFor, 30*time.Second),
		log:     cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("forward", o.Name),
		side:    side,
		shared:  o.Shared || side.onNetwork(),
		hosts:   hostNames{listed: o.Hosts, network: side.onNetwork()},
	}
	f.life, f.end = context.WithCancel(context.Background())
	f.enter(nil, Reason{Title: "Starting " + cmp.Or(o.Name, "the forward"), Transient: true})
	return f
}

// Serve accepts clients until ctx ends, then closes the listeners and every
// connection, and returns when nothing of the forward runs any more.
func (f *Forward) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(f.side.listeners))
	for _, l := range f.side.listeners {
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

// accept takes clients from one listener until ctx ends.
func (f *Forward) accept(ctx context.Context, l net.Listener) error {
	const maxPause = time.Second
	pause := 5 * time.Millisecond
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
			// Out of descriptors, or a client that left in the queue: the
			// listener itself is as good as before.
			f.log.Warn("accepting a connection failed", "err", err)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, maxPause)
		default:
			pause = 5 * time.Millisecond
			f.conns.Go(func() { f.handle(ctx, conn) })
		}
	}
}

// Close gives the port back. It is for a forward that is not served; Serve does
// the same when its context ends.
func (f *Forward) Close() error {
	f.end()
	return f.side.close()
}

// Open sends connections to t from now on. Those that wait go through; those that
// are under way stay where they are. Channels opened ahead to the last target are
// closed, even if it was the same.
func (f *Forward) Open(t Target) { f.enter(&t, Reason{}) }

// Withdraw takes the target away. Connections that are under way stay; new ones
// wait, or are told r.
func (f *Forward) Withdraw(r Reason) { f.enter(nil, r) }

// enter puts the forward on a new footing.
func (f *Forward) enter(t *Target, r Reason) {
	next := &footing{target: t, reason: r}
	next.ctx, next.end = context.WithCancel(f.life)
	if t != nil && t.HTTP && !t.Scarce && f.kind == api.ForwardLocal {
		dial := func(ctx context.Context) (net.Conn, error) { return t.Dialer.Dial(ctx, t.Network, t.Address) }
		next.warm = newWarmPool(next.ctx, dial, f.conns.Go)
	}
	f.mu.Lock()
	last := f.now
	switch {
	case t != nil:
		next.trusted = t.HasToken
	case last != nil:
		next.trusted = last.trusted
	}
	f.now = next
	f.mu.Unlock()
	if last != nil {
		last.end()
	}
}

func (f *Forward) standing() *footing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Status tells where the forward listens, where it goes and what it carried.
func (f *Forward) Status() api.Forward {
	s := api.Forward{Kind: f.kind, Listen: f.side.String(), Note: f.side.note, Shared: f.shared}
	if t := f.standing().target; t != nil && f.kind != api.ForwardDynamic {
		s.Target = t.Address
	}
	f.counters.fill(&s)
	return s
}

// Addr is the address the forward listens on, 127.0.0.1 of a loopback pair. It is
// zero for a unix socket.
func (f *Forward) Addr() netip.AddrPort { return f.side.addr }

// Port is the port the forward listens on, 0 for a unix socket.
func (f *Forward) Port() int { return f.side.port() }

// URLHost is the host of a URL that surely leads here: "localhost:8888", or
// "127.0.0.1:8888" where ::1 could not be had and may be somebody else's.
func (f *Forward) URLHost() string { return f.side.urlHost }

// Note says what a person should know about the local side: that the wanted port
// is held, and by whom. It is empty when all is as wanted.
func (f *Forward) Note() string { return f.side.note }

// sleep waits for d, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
