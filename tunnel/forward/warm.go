package forward

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
)

const (
	// warmMin and warmMax bound the connections that are opened in advance: a
	// browser opens up to six connections to one server.
	warmMin, warmMax = 2, 6
	// warmWindow is how far back demand counts.
	warmWindow = 10 * time.Second
	// warmIdle is how long connections are kept open after the last client.
	warmIdle = time.Minute
	// warmAge is the maximum age of an unused connection. Servers close connections
	// that stay silent; past their timeout a request would race with the close.
	warmAge = 20 * time.Second
	// warmAgeMin is the timeout below which a server is not worth the connections.
	warmAgeMin = 2 * time.Second
	// warmPause is the pause after a failed dial.
	warmPause = 5 * time.Second
	// firstRequestTimeout is how long a client of an HTTP target may take to send its
	// request before the target is dialed anyway.
	firstRequestTimeout = time.Second
)

// warmPool keeps a few connections to one target open in advance, so that a new
// client's first byte takes one round trip and not two.
type warmPool struct {
	ctx   context.Context
	dial  func(context.Context) (net.Conn, error)
	spawn func(func()) // starts a goroutine of the forward
	wake  chan struct{}

	mu           sync.Mutex
	idle         []*warmConn // oldest first
	opening      int
	recent       []time.Time // when clients connected
	maxAge       time.Duration
	noDialBefore time.Time
	running      bool
}

func newWarmPool(ctx context.Context, dial func(context.Context) (net.Conn, error), spawn func(func())) *warmPool {
	return &warmPool{ctx: ctx, dial: dial, spawn: spawn, wake: make(chan struct{}, 1), maxAge: warmAge}
}

// addDemand counts a client that was connected. Connections for the next ones are opened
// from then on.
func (p *warmPool) addDemand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.recent = append(p.recent[max(0, len(p.recent)+1-warmMax):], now)
	if p.running {
		latest.Signal(p.wake)
		return
	}
	p.running = true
	p.spawn(p.maintain)
}

// ready reports whether get has a connection.
func (p *warmPool) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// get returns the youngest connection, or nil.
func (p *warmPool) get() *warmConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return c
}

// maintain opens and closes connections until no client has connected for a while.
func (p *warmPool) maintain() {
	for next := p.adjust(time.Now()); next > 0; next = p.adjust(time.Now()) {
		ctxtime.SleepUntil(p.ctx, time.Now().Add(next), p.wake)
	}
}

// adjust opens and closes connections, and returns when to do so again; 0: never.
func (p *warmPool) adjust(now time.Time) (next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.wantLocked(now)
	for len(p.idle) > 0 && (want == 0 || now.Sub(p.idle[0].since) >= p.maxAge) {
		expired := p.idle[0]
		p.idle = p.idle[1:]
		p.spawn(func() { _ = expired.Close() })
	}
	if want == 0 {
		p.running = false
		return 0
	}
	next = p.recent[len(p.recent)-1].Add(warmIdle).Sub(now)
	if len(p.idle) > 0 {
		next = min(next, p.idle[0].since.Add(p.maxAge).Sub(now))
	}
	if wait := p.noDialBefore.Sub(now); wait > 0 {
		return min(next, wait)
	}
	for len(p.idle)+p.opening < want {
		p.opening++
		p.spawn(p.open)
	}
	return next
}

// wantLocked is how many connections recent demand is worth.
func (p *warmPool) wantLocked(now time.Time) int {
	last := p.recent[len(p.recent)-1]
	if p.ctx.Err() != nil || now.Sub(last) >= warmIdle || p.maxAge < warmAgeMin {
		return 0
	}
	n := 0
	for _, at := range p.recent {
		if now.Sub(at) < warmWindow {
			n++
		}
	}
	return min(max(n, warmMin), warmMax)
}

// open dials one connection and watches it until it is used, expired or closed.
func (p *warmPool) open() {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	conn, err := p.dial(ctx)
	cancel()
	c := &warmConn{Conn: conn, since: time.Now(), read: make(chan struct{})}
	if !p.add(c, err) {
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	c.readFirst()
	if p.drop(c) {
		_ = c.Close()
	}
}

// add adds a dialed connection, if it is still of use.
func (p *warmPool) add(c *warmConn, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer latest.Signal(p.wake)
	p.opening--
	if err != nil {
		p.noDialBefore = time.Now().Add(warmPause)
		return false
	}
	if !p.running || p.ctx.Err() != nil {
		return false
	}
	p.idle = append(p.idle, c)
	return true
}

// drop removes a connection on which a read returned, and reports whether it was still
// unused. If the server closed it, its timeout is known now: the next ones expire well
// before that.
func (p *warmPool) drop(c *warmConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, c)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.maxAge = min(p.maxAge, time.Since(c.since)/2)
	latest.Signal(p.wake)
	return true
}

// warmConn is a connection with a read always pending, so that its end is noticed while
// it is unused.
type warmConn struct {
	net.Conn
	since time.Time
	read  chan struct{} // closed when the pending read has returned
	first []byte        // what it returned
	err   error
}

// readFirst does the pending read.
func (c *warmConn) readFirst() {
	buf := make([]byte, 4<<10)
	n, err := c.Read(buf)
	c.first, c.err = buf[:n], err
	close(c.read)
}

var errUnanswered = errors.New("the server closed it without an answer")

// checkAnswered returns an error if the server closed the connection instead of
// answering. A server may report its idle timeout as "408 Request Timeout".
func (c *warmConn) checkAnswered() error {
	if len(c.first) == 0 {
		return errors.Join(errUnanswered, c.err)
	}
	if bytes.HasPrefix(c.first, []byte("HTTP/1.1 408")) || bytes.HasPrefix(c.first, []byte("HTTP/1.0 408")) {
		return errUnanswered
	}
	return nil
}

// useWarm sends the client's first request over a warm connection. It returns nil if
// the target must be dialed: there is no warm connection, the request must not be sent
// twice, or the connection was closed before anything was answered.
func (c *clientConn) useWarm(ctx context.Context, pool *warmPool) *relayConn {
	if !pool.ready() {
		return nil
	}
	if c.firstRequest(ctx).kind != repeatable {
		return nil
	}
	conn := pool.get()
	if conn == nil {
		return nil
	}
	target := &relayConn{Conn: conn.Conn}
	sent, err := c.sendFirst(ctx, conn, target)
	if err != nil {
		_ = conn.Close()
		c.log.Debug("an open channel was not used", "err", err)
		return nil
	}
	c.counters.sent(sent)
	c.preread.skip(sent)
	target.buffered, target.readErr = conn.first, conn.err
	return target
}

// sendFirst sends what the client sends until the answer begins, and returns how many
// bytes that was. After an error all of it can be sent again over another connection. If
// the client finishes sending, that is passed on at once, too: a server stops working
// for a client that has left. Whatever the server does after that is its answer.
func (c *clientConn) sendFirst(ctx context.Context, conn *warmConn, target *relayConn) (n int, err error) {
	for {
		sent, more := c.preread.peek()
		if c.preread.gone() {
			return n, errClientGone
		}
		if len(sent) > n {
			// If the connection was closed meanwhile, a read says so.
			_, _ = conn.Write(sent[n:])
			n = len(sent)
		}
		if c.preread.finished() && !latest.IsClosed(conn.read) {
			target.closeWrite()
		}
		select {
		case <-conn.read:
			if target.writeClosed.Load() {
				return n, nil
			}
			return n, conn.checkAnswered()
		case <-more:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
}
