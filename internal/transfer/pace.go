package transfer

import (
	"context"
	"sync"
	"time"

	"tunctl/internal/ctxtime"
)

// Ping measures how long the link to a host takes to answer now.
type Ping func(ctx context.Context) (time.Duration, error)

const (
	maxInFlight   = chunkWorkers * chunkSize // bytes: twice the windows of all lanes
	firstInFlight = 2 << 20                  // before anything is known about the link
	minInFlight   = 2 * packet
	// minQueue is how long data may wait in the queues of a link, even to a near host.
	minQueue  = 15 * time.Millisecond
	pingEvery = 100 * time.Millisecond
	holdBack  = 100 // pings: every ten seconds, or a hundred round trips
)

// pace limits the bytes in flight, so that the queues of a slow link stay short and other
// traffic, such as the page of a notebook, is not slowed down by the copy. It measures
// round trips: while they are about as short as on an empty link, the limit grows; once
// they have doubled, it shrinks to what the link itself holds. Regularly it holds back to
// measure the empty link again: the route may have changed.
type pace struct {
	ping Ping // nil: the link is not measured

	mu       sync.Mutex
	limit    int
	inFlight int
	freed    chan struct{} // closed when more may be allowed
	base     time.Duration // a round trip on the empty link; 0: not known
	full     bool          // the link was found to be full before
	pings    int           // since it was empty
	before   int           // the limit before it holds back
}

func newPace(ping Ping) *pace {
	return &pace{ping: ping, limit: maxInFlight, freed: make(chan struct{})}
}

// watch measures the link until ctx ends. A link that cannot be measured has only the
// limit maxInFlight.
func (p *pace) watch(ctx context.Context) {
	for p.ping != nil && ctx.Err() == nil {
		rtt, err := p.ping(ctx)
		if err != nil {
			p.unknown()
		} else {
			p.measured(rtt)
		}
		_ = ctxtime.Sleep(ctx, pingEvery) // the loop looks at ctx
	}
}

// measured adjusts the limit to a new round trip.
func (p *pace) measured(rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pings++
	switch {
	case p.base == 0:
		p.base, p.pings = rtt, 0
		p.allowLocked(firstInFlight)
	case p.pings == holdBack:
		p.before = p.limit
		p.allowLocked(p.limit / 4)
	case p.pings == holdBack+1:
		// What was in flight is still arriving.
	case p.pings == holdBack+2:
		p.base, p.pings = rtt, 0
		p.allowLocked(p.before)
	default:
		p.adjustLocked(rtt)
	}
}

func (p *pace) adjustLocked(rtt time.Duration) {
	p.base = min(p.base, rtt)
	queue := max(p.base, minQueue)
	switch {
	case rtt > p.base+queue:
		// About what the link itself holds stays in flight, and the queue drains. One
		// late answer may have had other reasons.
		p.full = true
		p.allowLocked(max(int(float64(p.inFlight)*float64(queue)/float64(rtt)), p.inFlight/4))
	case 2*p.inFlight < p.limit:
		// The limit does not slow the copy.
	case p.full:
		p.allowLocked(p.limit + p.limit/8)
	default:
		p.allowLocked(2 * p.limit)
	}
}

// unknown forgets what was measured, as after a lost connection.
func (p *pace) unknown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.base, p.full = 0, false
	p.allowLocked(maxInFlight)
}

func (p *pace) allowLocked(limit int) {
	p.limit = min(max(limit, minInFlight), maxInFlight)
	p.wakeLocked()
}

func (p *pace) wakeLocked() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// chunkLen is how much to send at once, so that many chunks make up the limit.
func (p *pace) chunkLen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.limit / chunkWorkers
	return min(max(n-n%packet, packet), chunkSize)
}

// acquire waits until n bytes may be in flight. More than the limit may be alone.
func (p *pace) acquire(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		room := p.inFlight == 0 || p.inFlight+n <= p.limit
		if room {
			p.inFlight += n
		}
		freed := p.freed
		p.mu.Unlock()
		if room {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release records that n bytes have arrived.
func (p *pace) release(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight -= n
	p.wakeLocked()
}

// paces are those of the links of a copy: none, one or two.
type paces []*pace

func pacesOf(ends ...Place) paces {
	var all paces
	for _, end := range ends {
		if h, ok := end.(*Host); ok {
			all = append(all, h.pace)
		}
	}
	return all
}

func (all paces) chunkLen() int {
	n := chunkSize
	for _, p := range all {
		n = min(n, p.chunkLen())
	}
	return n
}

func (all paces) acquire(ctx context.Context, n int) error {
	for i, p := range all {
		if err := p.acquire(ctx, n); err != nil {
			all[:i].release(n)
			return err
		}
	}
	return nil
}

func (all paces) release(n int) {
	for _, p := range all {
		p.release(n)
	}
}
