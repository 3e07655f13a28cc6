package pace

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	simStep       = time.Millisecond
	channelWindow = 2 << 20 // x/crypto's and OpenSSH's
	segment       = 1448
	requestSize   = 300
	replySize     = 1200
	pingSize      = 100
	requestEach   = 300 * time.Millisecond
)

// simWay is one direction of a simulated link: a TCP that fills a FIFO queue, and the
// link behind it. Counts are bytes since the start.
type simWay struct {
	rate  float64 // bytes a second
	queue float64 // what the queue holds
	delay func() time.Duration

	given, sent, served, got float64 // to the sender's system, to the queue, to the link, to the receiver

	window, lostAt, grown float64 // TCP's: bytes; where it lost packets; seconds since then
	pipe                  []simPiece
}

// simPiece is all up to a count, at a time.
type simPiece struct {
	at   time.Duration
	upTo float64
}

func arrived(pieces *[]simPiece, before float64, now time.Duration) float64 {
	for len(*pieces) > 0 && (*pieces)[0].at <= now {
		before = (*pieces)[0].upTo
		*pieces = (*pieces)[1:]
	}
	return before
}

// pass lets a step pass. TCP is CUBIC (RFC 9438), which doubles until the first loss. What
// is lost is sent again without delay: only the smaller window is simulated.
func (w *simWay) pass(now time.Duration) {
	w.sent += max(0, min(w.given-w.sent, w.window-(w.sent-w.got)))
	if w.sent-w.served > w.queue {
		w.sent = w.served + w.queue
		if w.lostAt == 0 || w.grown > (w.delay()*2).Seconds()+w.queue/w.rate {
			w.lostAt, w.grown = w.sent-w.got, 0
		}
	}
	if out := min(w.sent-w.served, w.rate*simStep.Seconds()); out > 0 {
		w.served += out
		at := now + w.delay()
		if n := len(w.pipe); n > 0 {
			at = max(at, w.pipe[n-1].at)
		}
		w.pipe = append(w.pipe, simPiece{at, w.served})
	}
	before := w.got
	w.got = arrived(&w.pipe, w.got, now)
	if w.lostAt == 0 {
		w.window += w.got - before
	} else {
		w.grown += simStep.Seconds()
		x := w.grown - math.Cbrt(w.lostAt/segment*0.3/0.4)
		w.window = max(4*segment, w.lostAt+segment*0.4*x*x*x)
	}
}

// ahead is how much more a program may write. Linux lets it write about as much as is
// under way, and sshd has a buffer of its own.
func (w *simWay) ahead() float64 { return 2*(w.sent-w.got) + 128<<10 - (w.given - w.got) }

// simMessage is something small that goes to the host and back.
type simMessage struct {
	began    time.Duration
	up, down float64 // it has arrived when so much has; down is 0 until it has been answered
	reply    float64 // its size
	sent     float64 // how much was sent before it
}

// simBulk is a transfer that takes what it can.
type simBulk struct {
	window  float64
	control *rateControl // nil: unlimited

	rate             float64
	next             time.Duration
	waited           bool
	moved            float64 // by the program here
	arrived          float64 // at the other end of the link
	known            float64 // the count that was last measured
	knownAt, askedAt time.Duration
}

// take is how much the transfer may move of what it can.
func (b *simBulk) take(can float64, now time.Duration) (taken float64) {
	if b.rate == 0 {
		b.moved += can
		return can
	}
	for can-taken > 0 {
		if now < b.next {
			b.waited = true
			break
		}
		n := min(can-taken, float64(pieceSize(b.rate)))
		taken += n
		b.next = max(b.next, now-paceSlack) + time.Duration(n/b.rate*float64(time.Second))
	}
	b.moved += taken
	return taken
}

// sim is a simulated connection with requests, and transfers beside them.
type sim struct {
	up, down         *simWay
	upload, download *simBulk // nil: none

	rtt     time.Duration
	late    time.Duration // what else a round trip takes now
	noise   float64       // in measured speeds
	stops   time.Duration // the computer stops so often, on average; 0: never
	change  func(now time.Duration)
	rand    *rand.Rand
	judged  time.Duration // requests count from then on
	took    []time.Duration
	stopped time.Duration
	credit  []simPiece // on their way to the host
	allowed float64
	offered float64
	small   float64 // bytes of answers
	asked   []*simMessage
	ping    *simMessage
	tick    time.Duration
}

func newSim(seed uint64, rate, queue float64, rtt time.Duration) *sim {
	s := &sim{rtt: rtt, rand: rand.New(rand.NewPCG(seed, 1))}
	delay := func() time.Duration { return (s.rtt + s.late) / 2 }
	s.up = &simWay{rate: rate, queue: queue, delay: delay, window: 10 * segment}
	s.down = &simWay{rate: rate, queue: queue, delay: delay, window: 10 * segment}
	return s
}

func (s *sim) run(total time.Duration) {
	nextStop := total
	if s.stops > 0 {
		nextStop = s.about(s.stops)()
	}
	if s.download != nil {
		s.allowed = s.download.window
	}
	for now := simStep; now <= total; now += simStep {
		if s.change != nil {
			s.change(now)
		}
		s.up.pass(now)
		s.host(now)
		s.down.pass(now)
		if now >= nextStop {
			s.stopped = now + 50*time.Millisecond + time.Duration(s.rand.Int64N(int64(250*time.Millisecond)))
			nextStop = s.stopped + s.about(s.stops)()
		}
		if now >= s.stopped {
			s.computer(now)
		}
		if s.download != nil {
			s.download.arrived = s.down.got - s.small
		}
		if s.upload != nil {
			s.upload.arrived = s.up.got
		}
	}
}

// about returns times of a length on average.
func (s *sim) about(length time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(s.rand.ExpFloat64() * float64(length)) }
}

// host sends what it may, and answers.
func (s *sim) host(now time.Duration) {
	if s.download != nil {
		s.allowed = arrived(&s.credit, s.allowed, now)
		n := max(0, min(s.allowed-s.offered, s.down.ahead()))
		s.down.given += n
		s.offered += n
	}
	answer := func(m *simMessage) {
		if m != nil && m.down == 0 && s.up.got >= m.up {
			s.small += m.reply
			s.down.given += m.reply
			m.down = s.down.given
		}
	}
	answer(s.ping)
	for _, m := range s.asked {
		answer(m)
	}
}

// computer reads, writes, asks and measures.
func (s *sim) computer(now time.Duration) {
	if b := s.download; b != nil {
		if n := b.take(max(0, s.down.got-s.small-b.moved), now); n > 0 {
			s.credit = append(s.credit, simPiece{now + s.up.delay(), b.window + b.moved})
		}
	}
	if b := s.upload; b != nil {
		s.up.given += b.take(max(0, min(b.window-(s.up.given-s.up.got), s.up.ahead())), now)
	}
	send := func(size, reply float64) *simMessage {
		m := &simMessage{began: now, reply: reply, sent: s.up.given}
		s.up.given += size
		m.up = s.up.given
		return m
	}
	returned := func(m *simMessage) bool { return m.down > 0 && s.down.got >= m.down }
	if now%requestEach == 0 {
		s.asked = append(s.asked, send(requestSize, replySize))
	}
	s.asked = slices.DeleteFunc(s.asked, func(m *simMessage) bool {
		if returned(m) && m.began >= s.judged {
			s.took = append(s.took, now-m.began)
		}
		return returned(m)
	})
	for _, b := range []*simBulk{s.download, s.upload} {
		if b == nil || b.control == nil || b.moved < bulkSize {
			continue
		}
		due := now >= s.tick
		if m := s.ping; m != nil && returned(m) {
			s.measured(now, m, true)
			s.ping = nil
		} else if m != nil && due {
			s.measured(now, m, false)
		}
		if due {
			s.tick = now + measureEvery
			if s.ping == nil {
				s.ping = send(pingSize, pingSize)
			}
		}
		break
	}
}

// measured gives both controls a round trip, or how long one takes so far.
func (s *sim) measured(now time.Duration, ping *simMessage, answered bool) {
	for _, b := range []*simBulk{s.download, s.upload} {
		if b == nil || b.control == nil {
			continue
		}
		m := measurement{at: time.Unix(1e9, 0).Add(now), rtt: now - ping.began, answered: answered, waited: b.waited}
		b.waited = false
		if b == s.download || answered {
			count, asked := s.down.got, now
			if b == s.upload {
				count, asked = ping.sent, ping.began
			}
			m.moved = int64((count - b.known) * (1 - s.noise*s.rand.Float64()))
			if b.knownAt > 0 {
				m.took = max(now-b.knownAt, asked-b.askedAt)
			}
			b.known, b.knownAt, b.askedAt = count, now, asked
		}
		b.rate = b.control.measured(m)
	}
}

func (s *sim) p95() time.Duration {
	slices.Sort(s.took)
	if len(s.took) == 0 {
		return math.MaxInt64
	}
	return s.took[len(s.took)-1-len(s.took)/20]
}
