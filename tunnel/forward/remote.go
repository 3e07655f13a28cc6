package forward

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
)

// RemoteOptions describe a forward that listens on a host and dials here.
type RemoteOptions struct {
	Name string
	// Listen opens the listener on the host. It is called again after the listener
	// has ended, as it does with each lost connection.
	Listen       func(ctx context.Context, network, address string) (net.Listener, error)
	Network      string // of the listener: "tcp" or "unix"
	Address      string
	LocalNetwork string // of the address here
	LocalAddress string
	// Changed is called when the forward listens, no longer listens, or was refused.
	Changed func()
	Log     *slog.Logger
}

// Remote is a listener on a host whose connections go to an address here.
type Remote struct {
	o        RemoteOptions
	counters counters
	buffers  buffers
	conns    sync.WaitGroup
	wake     chan struct{}

	mu      sync.Mutex
	err     error // why it does not listen now
	refused bool  // because the host refused
}

const (
	// listenRetryMin and listenRetryMax bound the pause after a failed Listen.
	listenRetryMin, listenRetryMax = time.Second, 30 * time.Second
	// refusedRetryMax is the longest pause after a host has refused to listen. That
	// rarely passes: the port is in use, perhaps by our own last connection.
	refusedRetryMax = 5 * time.Minute
)

// NewRemote makes a remote forward; Serve runs it.
func NewRemote(o RemoteOptions) *Remote {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("forward", o.Name)
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Remote{o: o, wake: make(chan struct{}, 1), err: api.ErrDown}
}

// Serve listens on the host, again after each failure, until ctx ends.
func (r *Remote) Serve(ctx context.Context) error {
	wait := listenRetryMin
	for ctx.Err() == nil {
		l, err := r.listen(ctx)
		refused := err != nil && !errors.Is(err, api.ErrDown) && ctx.Err() == nil
		if err == nil {
			wait = listenRetryMin
			r.setListening(nil, false)
			err = r.serve(ctx, l)
		}
		r.setListening(err, refused)
		if !ctxtime.SleepUntil(ctx, time.Now().Add(wait), r.wake) {
			break
		}
		longest := listenRetryMax
		if refused {
			longest = refusedRetryMax
		}
		wait = min(2*wait, longest)
	}
	r.setListening(api.ErrDown, false)
	r.conns.Wait()
	return nil
}

// listen opens the listener on the host.
func (r *Remote) listen(ctx context.Context) (net.Listener, error) {
	listenCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l, err := r.o.Listen(listenCtx, r.o.Network, r.o.Address)
	if err != nil && ctx.Err() == nil && listenCtx.Err() != nil {
		err = api.Errorf(api.CodeUnreachable, "the host did not respond within %s", api.DurationText(dialTimeout)).Because(err)
	}
	return l, err
}

// Retry listens now, and not after the pause: the host is connected again.
func (r *Remote) Retry() { latest.Signal(r.wake) }

// serve accepts connections until the listener or ctx ends. Connections outlive their
// listener, but not ctx.
func (r *Remote) serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			_ = l.Close()
			return err
		}
		r.conns.Go(func() { r.handle(ctx, conn) })
	}
}

// handle serves one connection. If the dial here fails, it is closed at once.
func (r *Remote) handle(ctx context.Context, remote net.Conn) {
	defer r.counters.connOpened()()
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	local, err := DialLocal(dialCtx, r.o.LocalNetwork, r.o.LocalAddress)
	if err != nil {
		r.counters.refused.Add(1)
		r.counters.failed(err)
		r.o.Log.Info("the local target cannot be reached", "address", r.o.LocalAddress, "err", err)
		reset(remote)
		return
	}
	r.counters.failure.Store(nil)
	relay(ctx, &relayConn{Conn: local}, &relayConn{Conn: remote}, &r.buffers, &r.counters)
}

// setListening records whether the forward listens, and reports a change.
func (r *Remote) setListening(err error, refused bool) {
	r.mu.Lock()
	same := (err == nil) == (r.err == nil) && refused == r.refused
	r.err, r.refused = err, refused
	r.mu.Unlock()
	switch {
	case same:
		return
	case err == nil:
		r.o.Log.Info("listening on the host", "address", r.o.Address)
	case refused:
		r.o.Log.Warn("the host refused to listen", "address", r.o.Address, "err", err)
	case !errors.Is(err, context.Canceled):
		r.o.Log.Info("no longer listening on the host", "err", err)
	}
	r.o.Changed()
}

// Err is why the forward does not listen on the host; nil if it does.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Refused is why the host, though connected, does not listen for the forward; nil if it
// listens or has not replied yet.
func (r *Remote) Refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused {
		return nil
	}
	return r.err
}

// Status reports where the forward listens, its target, and what it has relayed.
func (r *Remote) Status() api.Forward {
	s := api.Forward{Kind: api.ForwardRemote, Listen: r.o.Address, Target: r.o.LocalAddress}
	if err := r.Refused(); err != nil {
		s.Error = err.Error()
	}
	r.counters.fill(&s)
	return s
}

// DialLocal dials an address on this machine. It never looks the name localhost up: the
// hosts file of a minimal container may lack it.
func DialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" {
		return d.DialContext(ctx, network, address)
	}
	var errs []error
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(loopback, port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
