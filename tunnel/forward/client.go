package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/peer"
)

const (
	// dialTimeout bounds one dial beyond the host. A node that drops packets
	// would otherwise hold a client for minutes.
	dialTimeout = 30 * time.Second
	// downRetry is the pause before a dial is tried again on a host that is not
	// connected, in case nobody withdraws the target meanwhile.
	downRetry = 250 * time.Millisecond
	// speakTimeout is how long a client that can be told nothing but by HTTP is
	// given to speak it.
	speakTimeout = 3 * time.Second
)

// Why a client does not get through, apart from what the dialer says.
var (
	errWithdrawn = errors.New("the target is withdrawn")
	errUnchecked = errors.New("the target asks for more than the one before")
	errGone      = errors.New("the client is gone")
)

// visit is one client's connection, on its way to the far side.
type visit struct {
	*Forward
	conn    net.Conn
	checked bool // its requests are, or it can bring none of a browser's
	flight  *flight
	address string // that a SOCKS client asked for
}

// handle carries one client's connection from beginning to end.
func (f *Forward) handle(ctx context.Context, conn net.Conn) {
	defer f.counters.enter()()
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { reset(conn) })()

	if !f.shared && !peer.OwnConn(conn) {
		f.counters.refused.Add(1)
		f.log.Warn("refused another user of this machine", "peer", conn.RemoteAddr().String())
		reset(conn)
		return
	}
	v := &visit{Forward: f, conn: conn, checked: true}
	if f.kind == api.ForwardDynamic {
		address, err := socksRequest(conn)
		if err != nil {
			f.log.Debug("no SOCKS5 request", "err", err)
			return
		}
		v.address = address
	} else if f.side.path == "" {
		v.check()
	}
	v.flight = readFlight(v.conn)
	remote, err := v.reach(ctx)
	if err == nil && f.kind == api.ForwardDynamic {
		err = socksReply(v.conn, nil)
	}
	if err != nil {
		v.turnAway(ctx, err)
		v.leave(remote)
		return
	}
	relay(ctx, v.flight.stop(), remote, &f.buffers, &f.counters)
}

// check has the names in the client's requests checked, unless the target sees to who
// comes. That is for the whole of a connection, whatever the target is later.
func (v *visit) check() {
	if v.standing().trusted {
		v.checked = false
		return
	}
	v.conn = newCheckedConn(v.conn, v.hosts, func(host string) {
		v.counters.refused.Add(1)
		v.log.Warn("refused a request for a foreign name", "host", host)
	})
}

// leave ends a visit that came to nothing.
func (v *visit) leave(remote *end) {
	if remote != nil {
		_ = remote.Close()
	}
	_ = v.conn.Close()
	<-v.flight.done
}

// reach finds the far side for a client, waiting while there is none.
func (v *visit) reach(ctx context.Context) (*end, error) {
	hold, cancel := context.WithTimeoutCause(ctx, v.holdFor, api.ErrDown)
	defer cancel()
	for {
		now := v.standing()
		remote, err := v.try(ctx, now)
		switch {
		case err == nil:
			return remote, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case v.flight.gone():
			return nil, errGone
		case now.stale() && hold.Err() == nil:
			continue // the footing changed meanwhile: what failed says nothing
		case !errors.Is(err, api.ErrDown):
			return nil, err
		}
		if err := v.wait(hold, now); err != nil {
			return nil, err
		}
	}
}

// wait waits for another footing, or a moment if the present one has a target.
func (v *visit) wait(hold context.Context, now *footing) error {
	var again <-chan time.Time
	if now.target != nil {
		t := time.NewTimer(downRetry)
		defer t.Stop()
		again = t.C
	}
	left := v.flight.done
	for {
		said, more := v.flight.peek()
		if isPoll(judge(said).req) {
			return api.ErrDown
		}
		select {
		case <-more:
		case <-now.changed():
			return nil
		case <-again:
			return nil
		case <-left:
			if v.flight.gone() {
				return errGone
			}
			left = nil
		case <-hold.Done():
			return context.Cause(hold)
		}
	}
}

// try tries once to reach the target of a footing.
func (v *visit) try(ctx context.Context, now *footing) (*end, error) {
	t := now.target
	switch {
	case t == nil && now.reason.Transient:
		return nil, api.ErrDown
	case t == nil:
		return nil, errWithdrawn
	case !t.HasToken && !v.checked:
		return nil, errUnchecked
	case now.warm == nil:
		return v.dial(ctx, now)
	}
	remote := v.tryWarm(ctx, now.warm)
	if remote == nil {
		if v.flight.gone() {
			now.warm.demand() // it came, and used a channel up
			return nil, errGone
		}
		var err error
		if remote, err = v.dial(ctx, now); err != nil {
			return nil, err
		}
	}
	now.warm.demand()
	return remote, nil
}

// dial opens a fresh connection to the target of a footing, and gives up when the
// footing changes: the next one may be quicker.
func (v *visit) dial(ctx context.Context, now *footing) (*end, error) {
	network, address := now.target.Network, now.target.Address
	if v.address != "" {
		network, address = "tcp", v.address
	}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer now.onChange(cancel)()
	begun := time.Now()
	conn, err := now.target.Dialer.Dial(dialCtx, network, address)
	if err == nil {
		v.counters.opened(time.Since(begun))
		return &end{Conn: conn}, nil
	}
	if errors.Is(dialCtx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s did not respond within %s: %w", address, api.DurationText(dialTimeout), err)
	}
	if !errors.Is(err, api.ErrDown) && !now.stale() && ctx.Err() == nil {
		v.counters.refused.Add(1)
		v.log.Info("the target cannot be reached", "address", address, "err", err)
	}
	return nil, err
}

// turnAway ends a connection that could not be carried: with a page for a person
// at a browser, with a reset for everything else. A client that has said all it had
// to say would take a plain close for an empty answer.
func (v *visit) turnAway(ctx context.Context, err error) {
	switch {
	case errors.Is(err, errGone), errors.Is(err, errUnchecked), errors.Is(err, context.Canceled):
		reset(v.conn)
	case v.kind == api.ForwardDynamic:
		_ = socksReply(v.conn, err)
	case !v.tellBrowser(ctx, err):
		reset(v.conn)
	}
}
