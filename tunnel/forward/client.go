package forward

import (
	"context"
	"errors"
	"net"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/peer"
)

const (
	// dialTimeout bounds one dial beyond the host. A node that drops packets
	// would otherwise keep a client waiting for minutes.
	dialTimeout = 30 * time.Second
	// downRetry is the pause before the next dial on a host that is not connected,
	// in case nobody withdraws the target.
	downRetry = 250 * time.Millisecond
	// pageHoldFor is how long the user waits for a page before the waiting page tells why; a
	// short break of the link passes unseen.
	pageHoldFor = 3 * time.Second
	// requestTimeout is how long a client that can only get its answer over HTTP may
	// take to send a request.
	requestTimeout = 3 * time.Second
)

// Why a client gets no connection to the target, apart from the dialer's errors.
var (
	errNoTarget   = errors.New("the target is withdrawn")
	errUnchecked  = errors.New("the target asks for more than the one before")
	errClientGone = errors.New("the client is gone")
)

// clientConn is the connection of one client until it is relayed or rejected.
type clientConn struct {
	*Forward
	conn    net.Conn
	checked bool // its requests are, or it cannot be a browser
	preread *preread
	address string // requested by a SOCKS client
}

// handle serves one client's connection from beginning to end.
func (f *Forward) handle(ctx context.Context, conn net.Conn) {
	defer f.counters.connOpened()()
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { reset(conn) })
	defer stop()

	if !f.o.Shared {
		if err := peer.CheckConn(conn); err != nil {
			f.counters.refused.Add(1)
			f.log.Warn("refused a client", "peer", conn.RemoteAddr().String(), "err", err)
			reset(conn)
			return
		}
	}
	c := &clientConn{Forward: f, conn: conn, checked: true}
	if f.o.Kind == api.ForwardDynamic {
		address, err := socksRequest(conn)
		if err != nil {
			f.log.Debug("no SOCKS5 request", "err", err)
			return
		}
		c.address = address
	} else if f.local.path == "" {
		c.checkRequests()
	}
	c.preread = startPreread(c.conn)
	target, err := c.connect(ctx)
	if err == nil && f.o.Kind == api.ForwardDynamic {
		err = socksReply(c.conn, nil)
	}
	if err != nil {
		c.reject(ctx, err)
		if target != nil {
			_ = target.Close()
		}
		_ = c.conn.Close()
		<-c.preread.done
		return
	}
	f.counters.failure.Store(nil)
	local := c.preread.stop()
	local.away = func() bool {
		state := f.current()
		return state.target == nil && state.reason.Transient
	}
	stop()
	if target.direct {
		f.counters.direct.Add(1)
		defer f.counters.direct.Add(-1)
	}
	if relay(ctx, local, target, &f.buffers, &f.counters) && c.address == "" {
		f.counters.failed(errUnanswered)
	}
}

// checkRequests has the hosts and origins of the client's requests checked, unless the
// target requires a token. That is decided once for a connection, whatever its target becomes.
// Local tokens are checked in any case.
func (c *clientConn) checkRequests() {
	requests := requestStream{hosts: &c.hosts}
	if c.current().trusted {
		c.checked, requests.hosts = false, nil
	}
	if c.o.LocalToken != nil {
		requests.edit = c.checkTokens
	}
	if requests.hosts == nil && requests.edit == nil {
		return
	}
	c.conn = &checkedConn{Conn: c.conn, requests: requests, refused: func(err error) {
		c.counters.refused.Add(1)
		c.log.Warn("refused a request", "err", err)
	}}
}

// connect connects to the target, and waits while there is none.
func (c *clientConn) connect(ctx context.Context) (*relayConn, error) {
	hold, cancel := context.WithTimeoutCause(ctx, c.o.HoldFor, api.ErrDown)
	defer cancel()
	page, cancelPage := context.WithTimeoutCause(hold, pageHoldFor, api.ErrDown)
	defer cancelPage()
	for {
		state := c.current()
		target, err := c.connectTo(ctx, state)
		switch {
		case err == nil:
			return target, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case c.preread.gone():
			return nil, errClientGone
		case state.replaced() && hold.Err() == nil:
			continue // the error is about the old state
		case !errors.Is(err, api.ErrDown):
			return nil, err
		}
		if err := c.waitForTarget(hold, page, state); err != nil {
			return nil, err
		}
	}
}

// waitForTarget waits until the state is replaced, or a moment if it has a target. A client
// waits as long as hold, and one that requests a page as long as page.
func (c *clientConn) waitForTarget(hold, page context.Context, state *targetState) error {
	var retry <-chan time.Time
	if state.target != nil {
		retry = time.After(downRetry)
	}
	ended := c.preread.done
	for {
		sent, more := c.preread.peek()
		request := classify(sent).http
		poll, end := isPoll(request), hold
		if isNavigation(request) {
			end = page
		}
		c.o.Waiting(end == page && !poll)
		if poll {
			return api.ErrDown
		}
		select {
		case <-more:
		case <-state.ctx.Done():
			return nil
		case <-retry:
			return nil
		case <-ended:
			if c.preread.gone() {
				return errClientGone
			}
			ended = nil
		case <-end.Done():
			return context.Cause(end)
		}
	}
}

// connectTo tries once to connect to the target of a state.
func (c *clientConn) connectTo(ctx context.Context, state *targetState) (*relayConn, error) {
	t := state.target
	switch {
	case t == nil && state.reason.Transient:
		return nil, api.ErrDown
	case t == nil:
		return nil, errNoTarget
	case t.Token.IsZero() && !c.checked:
		return nil, errUnchecked
	case t.HTTP && t.Upgrades != nil && c.firstRequest(ctx).isUpgrade():
		return c.dialUpgrade(ctx, state)
	case state.warm == nil:
		return c.dial(ctx, state, t.Dialer.Dial)
	}
	target := c.useWarm(ctx, state.warm)
	if target == nil {
		if c.preread.gone() {
			state.warm.addDemand() // it used a connection up
			return nil, errClientGone
		}
		var err error
		if target, err = c.dial(ctx, state, t.Dialer.Dial); err != nil {
			return nil, err
		}
	}
	state.warm.addDemand()
	return target, nil
}

// firstRequest is the client's first request, or what it has sent of it in time.
func (c *clientConn) firstRequest(ctx context.Context) firstRequest {
	ctx, cancel := context.WithTimeout(ctx, firstRequestTimeout)
	defer cancel()
	return c.preread.request(ctx)
}

// dialUpgrade opens a connection for a client that asks for another protocol.
func (c *clientConn) dialUpgrade(ctx context.Context, state *targetState) (*relayConn, error) {
	request, _ := c.preread.peek()
	target, err := c.dial(ctx, state, func(ctx context.Context, network, address string) (net.Conn, error) {
		return state.target.Upgrades.DialUpgrade(ctx, network, address, request)
	})
	if err == nil {
		if d, ok := target.Conn.(DirectConn); ok {
			target.Conn, target.direct = d.Conn, true
		}
		c.counters.sent(len(request))
		c.preread.skip(len(request))
	}
	return target, err
}

// dial opens a new connection to the target of a state. It gives up when the state is
// replaced: the next target may be faster.
func (c *clientConn) dial(ctx context.Context, state *targetState, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*relayConn, error) {
	network, address := state.target.Network, state.target.Address
	if c.address != "" {
		network, address = "tcp", c.address
	}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(state.ctx, cancel)()
	start := time.Now()
	conn, err := dial(dialCtx, network, address)
	if err == nil {
		c.counters.dialed(time.Since(start))
		return &relayConn{Conn: conn}, nil
	}
	if errors.Is(dialCtx.Err(), context.DeadlineExceeded) {
		err = api.Errorf(api.CodeUnreachable, "%s did not respond within %s", address, api.DurationText(dialTimeout)).Because(err)
	}
	if !errors.Is(err, api.ErrDown) && !state.replaced() && ctx.Err() == nil {
		c.counters.refused.Add(1)
		if c.address == "" { // else each client of the forward has its own target
			c.counters.failed(err)
		}
		c.log.Info("the target cannot be reached", "address", address, "err", err)
	}
	return nil, err
}

// reject ends a connection without a target: with a page for a browser, with a reset
// for everything else. A client that has sent its whole request would read an empty
// answer from a plain close.
func (c *clientConn) reject(ctx context.Context, err error) {
	switch {
	case errors.Is(err, errClientGone), errors.Is(err, errUnchecked), errors.Is(err, context.Canceled):
		reset(c.conn)
	case c.o.Kind == api.ForwardDynamic:
		_ = socksReply(c.conn, err)
	case !c.sendWaitPage(ctx, err):
		reset(c.conn)
	}
}
