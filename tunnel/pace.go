package tunnel

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// bulkSize is how many bytes without a pause of bulkPause make a transfer a bulk one.
	bulkSize  = 512 << 10
	bulkPause = time.Second
	// measureEvery is how often a link with a bulk transfer is measured.
	measureEvery = 100 * time.Millisecond
	// paceIdle is how long after the last bulk data the measuring ends.
	paceIdle = 2 * time.Second
	// minQueue is how long data may wait in the queues of a link, even to a near host.
	minQueue = 10 * time.Millisecond
	// nearHost is a round trip to a host so near that its link is fast, and that the round
	// trips of a busy computer tell nothing about queues.
	nearHost = 3 * time.Millisecond
	// maxPaced is the speed, in bytes a second, beyond which a channel's window is no
	// queue that anybody would notice.
	maxPaced = 125e6
	// pacedPiece is how much a paced transfer moves at once.
	pacedPiece = 32 << 10
	// minRate is the slowest that a transfer is made, in bytes a second.
	minRate = 64 << 10
	// paceSlack is how much time a late piece may make up for.
	paceSlack = 5 * time.Millisecond
)

// pacer keeps the queues of a link short while bulk data moves in one direction, so that
// a page beside a download does not wait behind it.
//
// A channel's window is 2 MiB (x/crypto and OpenSSH), which is a queue of 170 ms before
// a link of 100 Mbit/s. The window cannot be made smaller, but data that arrived and was
// not read is a part of it. So bulk channels are read as fast as the link delivers and no
// faster: the data that would wait before the link then waits in the channel's buffer,
// where nobody waits behind it, and arrives no later.
type pacer struct {
	ping  func() (time.Duration, error) // a round trip with the queues on the way
	moved func() int64                  // bytes of the whole connection in this direction
	spawn func(func()) bool
	done  <-chan struct{} // closed when the connection has ended

	mu       sync.Mutex
	queue    queueControl
	watching bool
	bulkAt   time.Time // when bulk data last moved
	next     time.Time // when the link is free for the next piece
	limited  bool      // somebody waited for that since the last measurement
}

func newPacer(c *conn, moved func() int64) *pacer {
	ping := func() (time.Duration, error) {
		start := time.Now()
		_, _, err := c.client.SendRequest(keepaliveRequest, true, nil)
		return time.Since(start), err
	}
	return &pacer{ping: ping, moved: moved, spawn: c.spawn, done: c.done}
}

// wait waits for the turn of a bulk transfer that wants to move n bytes, and returns how
// many it may.
func (p *pacer) wait(n int) int {
	p.mu.Lock()
	rate, next := p.queue.rate, p.next
	p.mu.Unlock()
	if rate == 0 {
		return n
	}
	if d := time.Until(next); d > 0 {
		p.mu.Lock()
		p.limited = true
		p.mu.Unlock()
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.done:
		}
	}
	return min(n, pacedPiece)
}

// add counts n bytes that a bulk transfer has moved.
func (p *pacer) add(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bulkAt = now
	if !p.watching {
		p.watching = p.spawn(p.watch)
	}
	if p.queue.rate > 0 {
		if earliest := now.Add(-paceSlack); p.next.Before(earliest) {
			p.next = earliest
		}
		p.next = p.next.Add(time.Duration(float64(n) / p.queue.rate * float64(time.Second)))
	}
}

// noteRoundTrip takes in a round trip of something else, such as the opening of a
// channel.
func (p *pacer) noteRoundTrip(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.setBase(d)
}

// watch measures the link while bulk data moves.
func (p *pacer) watch() {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		rtt, err := p.ping()
		if err != nil || !p.measured(rtt, time.Now()) {
			return
		}
		select {
		case <-tick.C:
		case <-p.done:
			return
		}
	}
}

// measured takes in a round trip. It reports false when no bulk data moves any more.
func (p *pacer) measured(rtt time.Duration, now time.Time) bool {
	moved := p.moved()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.bulkAt) > paceIdle {
		p.watching = false
		p.queue.reset()
		return false
	}
	p.queue.measured(rtt, moved, p.limited, now)
	p.limited = false
	return true
}

const (
	// A queue is what all of the last shortestOf round trips had to wait: one that is late
	// may have other reasons.
	shortestOf = 3
	// The link's speed is the best of the last fastestOf measurements. Before two of
	// probeEach the transfer tries to be faster than the link: so it becomes known when
	// the link has become faster, and a queue that is not ours does not slow it for long.
	// It takes two, since what is granted now arrives a round trip later.
	fastestOf, probeEach = 10, 8
	// How fast a transfer may be, as a part of the link's speed.
	probing    = 1.05 // to see whether the link carries more
	rising     = 1.25 // if it did
	afterProbe = 0.9
	draining   = 0.75 // while there is a queue
	emptying   = 0.4  // while it is a long one, for the first emptyingFor measurements

	emptyingFor = 16
)

// queueControl decides how fast a bulk transfer may be, from round trips and the bytes
// that moved between them. Without a queue it is unlimited. Once there was one, it is as
// fast as the link, and slower until the queue is empty.
type queueControl struct {
	rate float64 // bytes a second; 0: unlimited

	base   time.Duration // the shortest round trip; 0: not known
	trips  []time.Duration
	speeds []float64
	at     time.Time // of the last measurement
	moved  int64     // until then
	count  int       // measurements since the rate was unlimited
	free   int       // the last of them in which the rate limited nothing
}

func (q *queueControl) setBase(rtt time.Duration) {
	if q.base == 0 || rtt < q.base {
		q.base = rtt
	}
}

// reset forgets all but the shortest round trip.
func (q *queueControl) reset() { *q = queueControl{base: q.base} }

// measured takes in a round trip, how much the connection has moved so far, and whether
// the transfer was limited since the last measurement.
func (q *queueControl) measured(rtt time.Duration, moved int64, limited bool, now time.Time) {
	q.setBase(rtt)
	q.trips = last(append(q.trips, rtt), shortestOf)
	if !q.at.IsZero() {
		q.speeds = last(append(q.speeds, float64(moved-q.moved)/now.Sub(q.at).Seconds()), fastestOf)
	}
	q.at, q.moved = now, moved
	if q.free++; limited {
		q.free = 0
	}
	if len(q.trips) < shortestOf {
		return
	}
	queue, allowed := slices.Min(q.trips)-q.base, max(q.base/2, minQueue)
	switch fastest := slices.Max(q.speeds); {
	case q.rate == 0 && queue <= allowed:
	case q.base < nearHost || fastest > maxPaced || q.rate > 0 && q.free > probeEach && queue <= allowed:
		q.rate, q.count = 0, 0
	default:
		q.rate = max(fastest*q.part(queue, allowed), minRate)
		q.count++
	}
}

// part is how fast the transfer may be until the next measurement.
func (q *queueControl) part(queue, allowed time.Duration) float64 {
	n := len(q.speeds)
	switch {
	case q.count >= probeEach && q.count%probeEach <= 1:
		return probing
	case queue > 4*allowed && q.count < emptyingFor:
		return emptying
	case queue > allowed:
		return draining
	case n > 1 && q.speeds[n-1] > 1.03*slices.Max(q.speeds[:n-1]):
		return rising
	case q.count%probeEach == 2:
		return afterProbe
	}
	return 1
}

// last are the last n of some.
func last[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// flow is one direction of one channel. Only its one reader or writer uses it.
type flow struct {
	pacer *pacer // nil: not paced
	size  int64  // bytes since the last pause
	last  time.Time
}

// wait waits for the turn of a bulk transfer, and returns how much of n it may move.
func (f *flow) wait(n int) int {
	if f.pacer == nil || f.size < bulkSize {
		return n
	}
	return f.pacer.wait(n)
}

// add counts n bytes that moved.
func (f *flow) add(n int) {
	if f.pacer == nil {
		return
	}
	now := time.Now()
	if now.Sub(f.last) > bulkPause {
		f.size = 0
	}
	f.last = now
	f.size += int64(n)
	if f.size >= bulkSize {
		f.pacer.add(n, now)
	}
}

// write writes p in the pieces that the pacer allows.
func (f *flow) write(w io.Writer, p []byte) (written int, err error) {
	for {
		n, err := w.Write(p[:f.wait(len(p))])
		f.add(n)
		written += n
		p = p[n:]
		if err != nil || len(p) == 0 {
			return written, err
		}
	}
}
