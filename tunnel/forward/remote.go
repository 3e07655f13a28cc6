package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"tunctl/internal/api"
)

// RemoteOptions describe a forward that listens on a host and dials here.
type RemoteOptions struct {
	Name string
	// Listen opens the listener on the host. It is called again whenever the
	// listener has ended, as with each lost connection.
	Listen       func(ctx context.Context, network, address string) (net.Listener, error)
	Network      string // of the listener: "tcp" or "unix"
	Address      string
	LocalNetwork string // of what is dialled here
	LocalAddress string
	// Changed is told when the forward listens, no longer listens, or was refused.
	Changed  func()
	RetryMin time.Duration // pause after a failed Listen; 1 s if zero
	RetryMax time.Duration // 30 s if zero
	Log      *slog.Logger
}

// RemoteForward is a listener on a host whose connections are carried to an
// address here.
type RemoteForward struct {
	o        RemoteOptions
	counters counters
	buffers  buffers
	conns    sync.WaitGroup
	wake     chan struct{}

	mu      sync.Mutex
	err     error // why it does not listen now
	refused bool  // because the host refused
}

// refusedRetryMax is the longest pause after a host has refused to listen. What is wrong
// there passes rarely: the port was in use, by our own last connection perhaps.
const refusedRetryMax = 5 * time.Minute

// NewRemote makes a remote forward; Serve runs it.
func NewRemote(o RemoteOptions) *RemoteForward {
	o.RetryMin = cmp.Or(o.RetryMin, time.Second)
	o.RetryMax = cmp.Or(o.RetryMax, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("forward", o.Name)
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &RemoteForward{o: o, wake: make(chan struct{}, 1), err: api.ErrDown}
}

// Serve listens on the host, again after each failure, until ctx ends.
func (r *RemoteForward) Serve(ctx context.Context) error {
	pause := r.o.RetryMin
	for ctx.Err() == nil {
		l, err := r.listen(ctx)
		refused := err != nil && !errors.Is(err, api.ErrDown) && ctx.Err() == nil
		if err == nil {
			pause = r.o.RetryMin
			r.enter(nil, false)
			err = r.serve(ctx, l)
		}
		r.enter(err, refused)
		if !r.rest(ctx, pause) {
			break
		}
		longest := r.o.RetryMax
		if refused {
			longest = refusedRetryMax
		}
		pause = min(2*pause, longest)
	}
	r.enter(api.ErrDown, false)
	r.conns.Wait()
	return nil
}

// listen asks the host once.
func (r *RemoteForward) listen(ctx context.Context) (net.Listener, error) {
	ask, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l, err := r.o.Listen(ask, r.o.Network, r.o.Address)
	if err != nil && ctx.Err() == nil && ask.Err() != nil {
		err = fmt.Errorf("the host did not respond within %s: %w", api.DurationText(dialTimeout), err)
	}
	return l, err
}

// Retry tries to listen now, rather than after the pause: the host is back.
func (r *RemoteForward) Retry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// rest waits before the next try, and reports whether there is to be one.
func (r *RemoteForward) rest(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// serve takes connections from one listener until it or ctx ends. Connections
// outlive their listener, but not ctx.
func (r *RemoteForward) serve(ctx context.Context, l net.Listener) error {
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

// handle carries one connection. A refused dial here closes it at once.
func (r *RemoteForward) handle(ctx context.Context, remote net.Conn) {
	defer r.counters.enter()()
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	local, err := DialHere(dialCtx, r.o.LocalNetwork, r.o.LocalAddress)
	if err != nil {
		r.counters.refused.Add(1)
		r.o.Log.Info("the local target cannot be reached", "address", r.o.LocalAddress, "err", err)
		reset(remote)
		return
	}
	relay(ctx, &end{Conn: local}, &end{Conn: remote}, &r.buffers, &r.counters)
}

// enter takes in whether the forward listens, and tells when that has changed.
func (r *RemoteForward) enter(err error, refused bool) {
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

// Err says why the forward does not listen on the host now; nil if it does.
func (r *RemoteForward) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Refused says why the host does not listen for the forward, though it is connected;
// nil if it does, or was not asked yet.
func (r *RemoteForward) Refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused {
		return nil
	}
	return r.err
}

// Status tells where the forward listens, where it goes and what it carried.
func (r *RemoteForward) Status() api.Forward {
	s := api.Forward{Kind: api.ForwardRemote, Listen: r.o.Address, Target: r.o.LocalAddress}
	if err := r.Refused(); err != nil {
		s.Error = err.Error()
	}
	r.counters.fill(&s)
	return s
}

// DialHere dials an address on this computer. The name localhost is never looked up:
// the hosts file of a minimal container may lack it.
func DialHere(ctx context.Context, network, address string) (net.Conn, error) {
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
