package forward

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// warmMin and warmMax bound the channels that are open ahead of need: a
	// browser opens up to six connections to one server.
	warmMin, warmMax = 2, 6
	// warmWindow is how far back demand counts.
	warmWindow = 10 * time.Second
	// warmIdle is how long after the last client channels are kept open at all.
	warmIdle = time.Minute
	// warmAge is how old a channel may get. Servers close connections that say
	// nothing; a channel that is older than their patience is a race to lose.
	warmAge = 20 * time.Second
	// warmAgeMin is the patience below which a server is not worth the channels.
	warmAgeMin = 2 * time.Second
	// warmPause is the rest after a dial that failed.
	warmPause = 5 * time.Second
	// speakFirst is how long a client of a HTTP target is given to speak before its
	// server is dialled anyway.
	speakFirst = time.Second
)

// warmPool keeps a few channels to one target open ahead of need, so that a new
// client's first byte takes one round trip and not two.
type warmPool struct {
	ctx   context.Context
	dial  func(context.Context) (net.Conn, error)
	spawn func(func()) // starts a goroutine of the forward
	wake  chan struct{}

	mu      sync.Mutex
	idle    []*warmConn // oldest first
	opening int
	recent  []time.Time // when clients came
	maxAge  time.Duration
	restTo  time.Time // no dial before this
	running bool
}

func newWarmPool(ctx context.Context, dial func(context.Context) (net.Conn, error), spawn func(func())) *warmPool {
	return &warmPool{ctx: ctx, dial: dial, spawn: spawn, wake: make(chan struct{}, 1), maxAge: warmAge}
}

// demand tells the pool that a client came through, which is when channels are
// opened ahead for the next ones.
func (p *warmPool) demand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.recent = append(p.recent, now)
	if len(p.recent) > warmMax {
		p.recent = slices.Delete(p.recent, 0, len(p.recent)-warmMax)
	}
	if p.running {
		p.rouse()
		return
	}
	p.running = true
	p.spawn(p.keep)
}

// ready reports whether there is a channel to take.
func (p *warmPool) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0
}

// take returns the youngest channel, or nil.
func (p *warmPool) take() *warmConn {
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

// keep opens and retires channels until nobody came for a while.
func (p *warmPool) keep() {
	for {
		retired, missing, next, stop := p.plan(time.Now())
		for _, c := range retired {
			_ = c.Close()
		}
		for range missing {
			p.spawn(p.open)
		}
		if stop {
			return
		}
		timer := time.NewTimer(next)
		select {
		case <-p.ctx.Done():
		case <-p.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// plan decides what to do now: which channels to close, how many to open, and
// when to look again.
func (p *warmPool) plan(now time.Time) (retired []*warmConn, missing int, next time.Duration, stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.wantLocked(now)
	if want == 0 {
		retired, p.idle, p.running = p.idle, nil, false
		return retired, 0, 0, true
	}
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) >= p.maxAge {
		retired = append(retired, p.idle[0])
		p.idle = p.idle[1:]
	}
	next = p.recent[len(p.recent)-1].Add(warmIdle).Sub(now)
	if len(p.idle) > 0 {
		next = min(next, p.idle[0].since.Add(p.maxAge).Sub(now))
	}
	if rest := p.restTo.Sub(now); rest > 0 {
		return retired, 0, min(next, rest), false
	}
	missing = max(0, want-len(p.idle)-p.opening)
	p.opening += missing
	return retired, missing, next, false
}

// wantLocked is how many channels recent demand is worth.
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

// open dials one channel and watches it until it is taken, retired or dead.
func (p *warmPool) open() {
	ctx, cancel := context.WithTimeout(p.ctx, dialTimeout)
	conn, err := p.dial(ctx)
	cancel()
	c := &warmConn{Conn: conn, since: time.Now(), ready: make(chan struct{})}
	if !p.add(c, err) {
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	c.listen()
	if p.drop(c) {
		_ = c.Close()
	}
}

// add puts a dialled channel among the idle ones, if there is still a use for it.
func (p *warmPool) add(c *warmConn, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.rouse()
	p.opening--
	if err != nil {
		p.restTo = time.Now().Add(warmPause)
		return false
	}
	if !p.running || p.ctx.Err() != nil {
		return false
	}
	p.idle = append(p.idle, c)
	return true
}

// drop removes a channel that ended, or spoke, and reports whether it was still
// idle. A server that closed it has shown how long it waits: later ones are
// retired well before that.
func (p *warmPool) drop(c *warmConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, c)
	if i < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, i, i+1)
	p.maxAge = min(p.maxAge, time.Since(c.since)/2)
	p.rouse()
	return true
}

// rouse makes keep look again.
func (p *warmPool) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// warmConn is a channel with a read always pending, so that its end is noticed
// while nobody uses it.
type warmConn struct {
	net.Conn
	since time.Time
	ready chan struct{} // closed when the pending read has ended
	first []byte        // what it brought
	err   error

	closeWrite sync.Once
}

// listen does the pending read.
func (c *warmConn) listen() {
	buf := make([]byte, 4<<10)
	n, err := c.Conn.Read(buf)
	c.first, c.err = buf[:n], err
	close(c.ready)
}

// Read returns what the pending read brought, then reads on.
func (c *warmConn) Read(b []byte) (int, error) {
	<-c.ready
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(b)
}

// spoke reports whether the pending read has ended.
func (c *warmConn) spoke() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// CloseWrite half-closes the channel, once.
func (c *warmConn) CloseWrite() error {
	c.closeWrite.Do(func() { closeWrite(c.Conn) })
	return nil
}

var errUnanswered = errors.New("closed before it answered")

// unanswered says whether the far side hung up on a request without a word. That a
// server lost patience with a silent channel may also come as "408 Request Timeout".
func (c *warmConn) unanswered() error {
	if len(c.first) == 0 {
		return errors.Join(errUnanswered, c.err)
	}
	if bytes.HasPrefix(c.first, []byte("HTTP/1.1 408")) || bytes.HasPrefix(c.first, []byte("HTTP/1.0 408")) {
		return errUnanswered
	}
	return nil
}

// tryWarm sends the client's first words over a channel that is open already. It
// returns nil when a fresh one must be dialled: there is none, the words may not
// be said twice, or the channel turned out dead before anything was answered.
func (v *visit) tryWarm(ctx context.Context, warm *warmPool) *end {
	if !warm.ready() {
		return nil
	}
	speak, cancel := context.WithTimeout(ctx, speakFirst)
	defer cancel()
	if v.flight.opening(speak).kind != repeatable {
		return nil
	}
	conn := warm.take()
	if conn == nil {
		return nil
	}
	sent, err := v.ask(ctx, conn)
	if err != nil {
		_ = conn.Close()
		v.log.Debug("an open channel was not used", "err", err)
		return nil
	}
	v.counters.sent(sent)
	v.flight.skip(sent)
	return &end{Conn: conn}
}

// ask passes on what the client says until the answer begins, and returns how much
// that was. An error means that it can all be said again elsewhere. The end of what the
// client says is passed on at once, too: a server stops working for one that has left.
// Whatever the far side does after that is its answer.
func (v *visit) ask(ctx context.Context, conn *warmConn) (sent int, err error) {
	ended := false
	for {
		said, more := v.flight.peek()
		if v.flight.gone() {
			return sent, errGone
		}
		if len(said) > sent {
			// A channel that ended meanwhile says so when it is read.
			_, _ = conn.Write(said[sent:])
			sent = len(said)
		}
		if !ended && v.flight.ended() && !conn.spoke() {
			ended = true
			_ = conn.CloseWrite()
		}
		select {
		case <-conn.ready:
			if ended {
				return sent, nil
			}
			return sent, conn.unanswered()
		case <-more:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
}
