// Package pace holds back the bulk transfers of a connection, so that a page beside them
// does not wait in a queue. A [Meter] belongs to a connection, of which it is given a few
// functions; a [Stream] is one direction of one of its channels. How fast bulk data may move
// is a function of measurements (rateControl).
package pace

import (
	"io"
	"sync"
	"time"
)

const (
	// bulkSize is how many bytes without a pause of bulkPause make a transfer a bulk one.
	// bulkLeast a second do not count: a stream of small messages is never one.
	bulkSize  = 256 << 10
	bulkPause = time.Second
	bulkLeast = 16 << 10
	// measureEvery is how often a link with a bulk transfer is measured.
	measureEvery = 50 * time.Millisecond
	// paceIdle is how long after the last bulk data the measuring ends.
	paceIdle = 2 * time.Second
	// A paced transfer moves what takes pieceTime at once: a page waits behind it.
	pieceTime          = time.Millisecond
	minPiece, maxPiece = 1 << 10, 32 << 10
	// paceSlack is how much time a late piece may make up for.
	paceSlack = 50 * time.Millisecond
)

// Connection is what a Meter needs of a connection.
type Connection struct {
	Ping           func() (time.Duration, error) // a round trip with the queues on the way
	Sent, Received func() int64                  // bytes of the whole connection
	Spawn          func(func()) bool             // runs a function; false: the connection is closing
	Done           <-chan struct{}               // closed when the connection has ended
}

// Meter measures a connection while bulk data moves in one or both directions. The streams
// of a nil Meter are not paced.
type Meter struct {
	conn Connection

	mu       sync.Mutex
	watching bool
	in, out  pacer
}

// pacer holds back the bulk transfers in one direction of a connection.
//
// A channel's window is 2 MiB (x/crypto and OpenSSH), which is a queue of 170 ms before
// a link of 100 Mbit/s. The window cannot be made smaller, but data that arrived and was
// not read is a part of it. So bulk channels are read as fast as the link delivers and no
// faster: the data that would wait before the link then waits in the channel's buffer,
// where nobody waits behind it, and arrives no later.
type pacer struct {
	meter *Meter

	// Guarded by the meter.
	control rateControl
	bulkAt  time.Time // when bulk data last moved
	next    time.Time // when the link is free for the next piece
	waited  bool      // somebody waited for that since the last measurement
	known   int64     // what had arrived at the last measurement
	knownAt time.Time
	askedAt time.Time // when that was asked for
}

// NewMeter returns the meter of a connection.
func NewMeter(c Connection) *Meter {
	m := &Meter{conn: c}
	m.in = pacer{meter: m, control: rateControl{other: &m.out.control}}
	m.out = pacer{meter: m, control: rateControl{other: &m.in.control, out: true}}
	return m
}

// Streams are what the host sends on a new channel, and what is sent to it.
func (m *Meter) Streams() (in, out Stream) {
	if m == nil {
		return Stream{}, Stream{}
	}
	return Stream{pacer: &m.in}, Stream{pacer: &m.out}
}

// reset forgets all but the shortest round trip.
func (p *pacer) reset() {
	p.control = rateControl{base: p.control.base, out: p.control.out, other: p.control.other}
	p.knownAt, p.waited = time.Time{}, false
}

// wait waits for the turn of a bulk transfer that wants to move n bytes, and returns how
// many it may.
func (p *pacer) wait(n int) int {
	p.meter.mu.Lock()
	rate, next := p.control.rate, p.next
	late := time.Until(next)
	p.waited = p.waited || rate > 0 && late > 0
	p.meter.mu.Unlock()
	if rate == 0 {
		return n
	}
	if late > 0 {
		select {
		case <-time.After(late):
		case <-p.meter.conn.Done:
		}
	}
	return min(n, pieceSize(rate))
}

// pieceSize is how much is moved at once.
func pieceSize(rate float64) int { return int(min(max(rate*pieceTime.Seconds(), minPiece), maxPiece)) }

// add counts n bytes that a bulk transfer has moved.
func (p *pacer) add(n int, now time.Time) {
	m := p.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	p.bulkAt = now
	if !m.watching {
		m.watching = m.conn.Spawn(m.watch)
	}
	if rate := p.control.rate; rate > 0 {
		if earliest := now.Add(-paceSlack); p.next.Before(earliest) {
			p.next = earliest
		}
		p.next = p.next.Add(seconds(float64(n) / rate))
	}
}

// NoteRoundTrip takes in how long the opening of a channel took, which is often before
// there is a queue.
func (m *Meter) NoteRoundTrip(d time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in.control.setBase(d)
	m.out.control.setBase(d)
}

// watch measures the link while bulk data moves.
func (m *Meter) watch() {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	answers := make(chan time.Duration, 1)
	var asked time.Time // zero: no request is on its way
	var sent int64      // before it
	for !m.idle(time.Now()) {
		if asked.IsZero() {
			asked, sent = time.Now(), m.conn.Sent()
			m.conn.Spawn(func() {
				if rtt, err := m.conn.Ping(); err == nil {
					answers <- rtt
				}
			})
		}
		select {
		case rtt := <-answers:
			m.measured(time.Now(), rtt, true, sent)
			asked = time.Time{}
			select {
			case <-tick.C:
			case <-m.conn.Done:
				return
			}
		case now := <-tick.C:
			m.measured(now, now.Sub(asked), false, sent)
		case <-m.conn.Done:
			return
		}
	}
}

// idle reports whether no bulk data moves any more; then the measuring ends.
func (m *Meter) idle(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range []*pacer{&m.in, &m.out} {
		if now.Sub(p.bulkAt) > paceIdle && p.control.phase != free {
			p.reset()
		}
	}
	m.watching = now.Sub(m.in.bulkAt) <= paceIdle || now.Sub(m.out.bulkAt) <= paceIdle
	if !m.watching {
		m.in.reset()
		m.out.reset()
	}
	return !m.watching
}

// measured takes in a round trip, or how long one takes so far. What was sent before the
// request has arrived when it is answered.
func (m *Meter) measured(now time.Time, rtt time.Duration, answered bool, sent int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range []*pacer{&m.in, &m.out} {
		if now.Sub(p.bulkAt) > paceIdle {
			continue
		}
		found := measurement{at: now, rtt: rtt, answered: answered, waited: p.waited}
		p.waited = false
		if p == &m.in {
			found.moved, found.took = p.arrivals(m.conn.Received(), now, now)
		} else if answered {
			found.moved, found.took = p.arrivals(sent, now, now.Add(-rtt))
		}
		p.control.measured(found)
	}
}

// arrivals is how much has arrived since the last measurement, and in which time. Requests
// that were sent further apart than they were answered met a queue that became shorter: it
// may be that of the other direction, and must not look like speed.
func (p *pacer) arrivals(total int64, now, asked time.Time) (moved int64, took time.Duration) {
	if !p.knownAt.IsZero() {
		moved, took = total-p.known, max(now.Sub(p.knownAt), asked.Sub(p.askedAt))
	}
	p.known, p.knownAt, p.askedAt = total, now, asked
	return moved, took
}

// Stream is one direction of one channel. Only its one reader or writer uses it.
type Stream struct {
	pacer *pacer  // nil: not paced
	size  float64 // bytes since the last pause, without those of a slow stream
	last  time.Time
}

// Wait waits for the turn of a bulk transfer, and returns how much of n it may move.
func (s *Stream) Wait(n int) int {
	if s.pacer == nil || s.size < bulkSize {
		return n
	}
	return s.pacer.wait(n)
}

// Add counts n bytes that moved.
func (s *Stream) Add(n int) {
	if s.pacer == nil {
		return
	}
	now := time.Now()
	pause := now.Sub(s.last)
	s.last = now
	s.size = max(0, s.size-bulkLeast*pause.Seconds())
	if pause > bulkPause {
		s.size = 0
	}
	s.size = min(s.size+float64(n), 2*bulkSize)
	if s.size >= bulkSize {
		s.pacer.add(n, now)
	}
}

// Write writes p in the pieces that the pacer allows.
func (s *Stream) Write(w io.Writer, p []byte) (written int, err error) {
	for {
		n, err := w.Write(p[:s.Wait(len(p))])
		s.Add(n)
		written += n
		p = p[n:]
		if err != nil || len(p) == 0 {
			return written, err
		}
	}
}
