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
	maxFlying   = chunkWorkers * chunkSize // bytes under way: twice what the lanes' windows hold
	firstFlying = 2 << 20                  // before anything is known about the link
	minFlying   = 2 * packet
	// minQueue is how long what is under way may wait on a link, however near the host.
	minQueue  = 25 * time.Millisecond
	pingEvery = 100 * time.Millisecond
	holdBack  = 100 // pings: every ten seconds, or a hundred round trips
)

// pace bounds how many bytes are under way, so that the queues of a link that is slower
// than the host stay short and what others do over it, such as the page of a notebook,
// goes on as if there were no copy. It watches the time of a round trip: while that is
// about as short as on an empty link, more may be under way; once it has doubled, no
// more than the link holds. Now and then it holds back, to see the empty link again:
// the way may have become another.
type pace struct {
	ping Ping // nil: the link is not measured

	mu     sync.Mutex
	limit  int
	flying int
	freed  chan struct{} // closed when there may be room
	base   time.Duration // a round trip on the empty link; 0: not known
	full   bool          // the link was found to be full before
	pings  int           // since it was empty
	before int           // the limit before it holds back
}

func newPace(ping Ping) *pace { return &pace{ping: ping, limit: maxFlying, freed: make(chan struct{})} }

// watch measures the link until ctx ends. A link that cannot be measured has no limit
// but ours.
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

// measured takes in a round trip that was just made.
func (p *pace) measured(rtt time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pings++
	switch {
	case p.base == 0:
		p.base, p.pings = rtt, 0
		p.allowLocked(firstFlying)
	case p.pings == holdBack:
		p.before = p.limit
		p.allowLocked(p.limit / 4)
	case p.pings == holdBack+1:
		// What was under way is arriving.
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
		// About what the link itself holds stays under way, and the queue runs empty. One
		// late answer may have had other reasons.
		p.full = true
		p.allowLocked(max(int(float64(p.flying)*float64(queue)/float64(rtt)), p.flying/4))
	case 2*p.flying < p.limit:
		// It is not the limit that holds the copy up.
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
	p.allowLocked(maxFlying)
}

func (p *pace) allowLocked(limit int) {
	p.limit = min(max(limit, minFlying), maxFlying)
	p.wakeLocked()
}

func (p *pace) wakeLocked() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// stretch is how much to send at once, so that many stretches make up the limit.
func (p *pace) stretch() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.limit / chunkWorkers
	return min(max(n-n%packet, packet), chunkSize)
}

// take waits until n bytes may be under way. More than the limit may go alone.
func (p *pace) take(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		room := p.flying == 0 || p.flying+n <= p.limit
		if room {
			p.flying += n
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

// give says that n bytes have arrived.
func (p *pace) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying -= n
	p.wakeLocked()
}

// paces are those of a copy's links: none, one, or both ends'.
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

func (all paces) stretch() int {
	n := chunkSize
	for _, p := range all {
		n = min(n, p.stretch())
	}
	return n
}

func (all paces) take(ctx context.Context, n int) error {
	for i, p := range all {
		if err := p.take(ctx, n); err != nil {
			all[:i].give(n)
			return err
		}
	}
	return nil
}

func (all paces) give(n int) {
	for _, p := range all {
		p.give(n)
	}
}
