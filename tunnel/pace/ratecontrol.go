package pace

import (
	"slices"
	"time"
)

// rateControl decides how fast bulk transfers may be in one direction of a connection, so
// that a page beside them does not wait in a queue, and so that this costs them nothing. It
// is a function of measurements and times.
//
// It keeps a short queue before the link: a link with a queue is busy, so the transfer gets
// all of it, and what is short is waited for by nobody. Its parts are those of BBR (a model
// of the link: the fastest delivery and the shortest round trip, both of the last seconds)
// and of LEDBAT (a queue of a given length as the aim, slowdowns that measure the shortest
// round trip again). Neither does what matters most here: if it costs the transfer speed,
// whatever the reason is, it ends.
//
//	free       unlimited, until there is a queue
//	draining   half the speed or less, until the queue is gone or found to be somebody else's
//	pacing     as fast as the link, with a short queue
//	looking    half the speed for a moment: what is left of the round trip is not our queue
type rateControl struct {
	out   bool         // what we send; else what the host sends
	other *rateControl // of the other direction; round trips have the queues of both

	rate  float64 // bytes a second; 0: unlimited
	phase phase
	since time.Time // of the phase
	last  time.Time // the last measurement while pacing

	base      time.Duration   // a round trip without our queue
	trips     []time.Duration // the last shortestOf
	paced     []time.Duration // the last jitterOf while pacing
	arrivals  []arrival
	speeds    []speedAt
	reference float64 // the fastest over costOver since it was free

	seen      []time.Duration // round trips since a slowdown had its effect
	seenSince time.Time
	resume    float64   // the rate after looking
	kept      float64   // the rate during the turn of the other direction; 0: it is this one's
	growth    float64   // of the rate, at each round trip without a queue
	grown     time.Time // when it last grew
	gain      float64   // what must be granted for each byte that is measured

	looked    time.Time
	lookPause time.Duration // at least, before it looks again
	filled    time.Time     // when the link was last full
	drained   time.Time
	costly    time.Time // when it first cost too much
	heldUntil time.Time // no slowdown before
	hold      time.Duration
}

type phase int

const (
	free phase = iota
	draining
	pacing
	looking
)

// measurement is what was found out about one direction of a connection.
type measurement struct {
	at       time.Time
	rtt      time.Duration // of a request; so far, unless it is answered
	answered bool
	moved    int64         // bytes that arrived since the last measurement
	took     time.Duration // in this time; 0: nothing was measured
	waited   bool          // the rate made a transfer wait since then
}

type arrival struct {
	moved int64
	took  time.Duration
}

type speedAt struct {
	at            time.Time
	speed, steady float64 // over speedOver, over costOver
}

const (
	// A queue is what all of the last shortestOf round trips had to wait: one that is late
	// may have other reasons.
	shortestOf = 3
	jitterOf   = 12
	// Speeds are averages: arrivals come in bursts.
	firstSpeed = 200 * time.Millisecond
	speedOver  = 500 * time.Millisecond
	recentFor  = time.Second
	bestFor    = 10 * time.Second

	// The aim is a queue of a quarter of the round trip. Between two measurements it must
	// also hold what is granted at once. On a busy computer, where round trips differ much, it
	// is longer: up to a whole round trip.
	aimPart = 4
	minAim  = time.Millisecond
	// It is reached in this time, or in three round trips: what is granted now arrives one
	// later and is measured another one later.
	settleIn = 200 * time.Millisecond
	// Without a queue the rate grows, by more each time: it doubles within a second.
	minGrowth, maxGrowth, maxSharedGrowth = 0.01, 0.07, 0.02
	// A measured byte may stand for more: what is granted late or counted late.
	minGain, maxGain, gainStep = 0.85, 1.3, 0.005

	// If a lower rate for trialFor does not shorten the queue, it is not ours.
	trialFor = time.Second
	// If less than usedPart of the rate arrives for usedOver, the rest is for data that came
	// before, as at the end of a file, and the link could do more.
	usedOver     = 100 * time.Millisecond
	usedPart     = 0.55
	unusedGrowth = 2
	// A link that delivers more than is granted drains a queue.
	drainsBy = 1.4
	// The shortest round trip is looked for again, since the route may have changed. That
	// takes at most a twentieth of the speed.
	lookEach  = 10 * time.Second
	lookShare = 10
	// Slower than this part of what the link delivered before, pacing costs too much. It
	// looks for the reason once, then it ends. With both directions it may cost more, since
	// they take turns.
	costOver               = 3 * time.Second
	costPart, bothCostPart = 0.9, 0.8
	costEnd                = 0.05 // below that, it ends at once
	// After a slowdown that did not help there is none for a while, and the rate is near the best.
	firstHold, longestHold = 15 * time.Second, time.Minute
	heldPart               = 0.9
	// In the turn of the other direction, this one is slower than the link and has no queue.
	turnFor   = time.Second
	turnTrips = 10
	turnPart  = 0.92

	// Nearer hosts and faster links are not limited: nobody would notice the queue, and a
	// busy computer is later than that.
	nearHost  = time.Millisecond
	fastLink  = 125e6
	leastWait = time.Second // without effect, before the limit ends
)

// measured takes in a measurement and returns the rate.
func (c *rateControl) measured(m measurement) float64 {
	c.add(m)
	if len(c.trips) < shortestOf || len(c.speeds) == 0 {
		return c.rate
	}
	l := c.link(m.at)
	if c.phase != free || m.at.Sub(c.since) > costOver {
		c.reference = max(c.reference, l.steady)
	}
	switch c.phase {
	case free:
		if l.queue > 2*l.aim && !m.at.Before(c.heldUntil) && c.base >= nearHost && l.best <= fastLink {
			c.enter(draining, m.at)
			c.rate, c.gain = l.best/2, 1
		}
	case draining:
		c.drain(m, l)
	case pacing:
		c.pace(m, l)
	case looking:
		c.look(m, l)
	}
	return c.rate
}

// linkState is what is known about the link now.
type linkState struct {
	now, recent, best, steady float64 // bytes a second: of the last speedOver, recentFor, bestFor, costOver
	queue, latest             time.Duration
	aim                       time.Duration
	shared                    bool // the other direction is limited, too
}

func (c *rateControl) link(at time.Time) linkState {
	newest := c.speeds[len(c.speeds)-1]
	l := linkState{
		now: newest.speed, steady: newest.steady, recent: c.fastest(at.Add(-recentFor)), best: c.fastest(at.Add(-bestFor)),
		queue: slices.Min(c.trips) - c.base, latest: c.trips[len(c.trips)-1] - c.base,
		shared: c.other != nil && c.other.phase != free,
	}
	l.aim = max(c.base/aimPart, minAim, seconds(1.25*minPiece/l.recent), min((c.jitter()-c.base/2)/2, c.base))
	if l.shared {
		l.aim = max(l.aim/2, minAim)
	}
	return l
}

func (c *rateControl) enter(p phase, at time.Time) {
	c.phase, c.since, c.seen, c.seenSince = p, at, nil, at
	switch p {
	case free:
		c.rate, c.reference = 0, 0
	case pacing:
		c.filled, c.looked, c.last, c.growth = at, at, at, 0
	}
}

// drain ends with the queue. What the host has been allowed to send comes first, so a
// download's queue shortens late; as long as more arrives than is granted, it is ours, and
// the link is busy however little is granted. So it is with an upload's, which may be seconds
// long in a router at home.
func (c *rateControl) drain(m measurement, l linkState) {
	c.rate = l.best / 2
	drains := l.now >= drainsBy*c.rate
	if c.out || l.queue > time.Second && l.now > 0.75*l.best {
		c.rate = l.best / 8
	}
	otherSlows := l.shared && c.other.phase != pacing
	switch {
	case min(l.queue, l.latest) <= l.aim || otherSlows && !drains && m.at.Sub(c.since) > speedOver:
		c.enter(pacing, m.at)
		c.drained, c.rate = m.at, l.recent
	case drains && !c.out:
		c.seen, c.seenSince = nil, m.at
	case m.answered:
		c.seen = append(c.seen, m.rtt)
		first := c.seen[0]
		switch {
		case m.asked().Sub(c.seenSince) < trialFor:
		case m.rtt <= first-first/4:
			c.seen, c.seenSince = []time.Duration{m.rtt}, m.at
		default:
			c.base = slices.Min(c.seen)
			c.holdOff(m.at)
			c.enter(pacing, m.at)
			c.drained, c.rate = m.at, l.best
		}
	}
}

// look ends when round trips do not become shorter any more.
func (c *rateControl) look(m measurement, l linkState) {
	c.rate = min(c.resume, l.best) / 2
	found := false
	if n := len(c.seen); m.answered && !m.asked().Before(c.since.Add(c.base)) {
		c.seen = append(c.seen, m.rtt)
		found = m.rtt <= c.base+l.aim/2 || n > 0 && m.rtt >= c.seen[n-1]-l.aim/2
	}
	took := m.at.Sub(c.since)
	if !found && took <= trialFor+3*c.base {
		return
	}
	if found {
		base := slices.Min(c.seen)
		if base > c.base+2*l.aim {
			c.holdOff(m.at)
		}
		c.base = base
	}
	c.lookPause = lookShare * took
	c.enter(pacing, m.at)
	c.rate = c.resume
}

// pace keeps the queue as long as the aim.
func (c *rateControl) pace(m measurement, l linkState) {
	passed := m.at.Sub(c.last)
	c.last = m.at
	if l.shared && c.other.phase != pacing {
		c.drained, c.filled = m.at, m.at // round trips tell about the other direction
		return
	}
	if c.othersTurn(m.at) {
		if c.kept == 0 {
			c.kept = turnPart * min(c.rate, l.recent*c.gain)
		}
		c.rate, c.filled = c.kept, m.at
		return
	}
	c.kept = 0
	c.follow(m, l, passed)
	if l.queue > l.aim || m.waited && l.now > c.rate/2 {
		c.filled = m.at
	}
	looked, costs := m.at.Sub(c.looked), costPart
	if c.out {
		looked = looked * 2 / 3 // not at the times of the other direction
	}
	if l.shared {
		costs = bothCostPart
	}
	switch {
	case m.at.Sub(c.filled) > leastWait+2*c.base:
		c.enter(free, m.at) // the transfer needs less, or reads what came before
	case l.steady > 0 && l.steady < costs*c.reference && m.at.Sub(c.drained) > costOver:
		if m.at.Sub(c.costly) < lookEach || l.steady < (costs-costEnd)*c.reference {
			c.holdOff(m.at)
			c.enter(free, m.at)
			return
		}
		c.costly, c.drained, c.resume = m.at, m.at, l.best
		c.enter(looking, m.at)
	case looked > max(lookEach, c.lookPause),
		l.queue > 2*l.aim && looked > max(trialFor/2, c.lookPause) && !l.shared:
		c.resume = c.rate
		c.enter(looking, m.at)
	}
}

// follow sets the rate to that of the link: a little more while the queue is too short, a
// little less while it is too long, and never less than half of the best.
func (c *rateControl) follow(m measurement, l linkState, passed time.Duration) {
	if c.unused(m, l) {
		c.rate = min(unusedGrowth*c.rate, 4*l.recent)
		return
	}
	short := float64(l.aim-l.queue) / float64(max(settleIn, 3*c.base))
	if max(l.latest, l.queue) < l.aim/2 {
		if m.answered && m.asked().After(c.grown) {
			limit := maxGrowth
			if l.shared {
				limit = maxSharedGrowth
			}
			c.growth = min(max(2*c.growth, minGrowth), limit)
			if c.rate > l.recent*c.gain {
				c.gain += gainStep
			}
			c.rate, c.grown = min(max(c.rate, l.recent)*(1+c.growth), 2*l.recent), m.at
		}
	} else {
		c.growth = 0
		c.rate = l.recent * c.gain * (1 + short)
	}
	c.gain = min(max(c.gain*(1+min(max(short, -0.2), 0.1)*passed.Seconds()), minGain), maxGain)
	least := 0.5
	if m.at.Before(c.heldUntil) {
		least = heldPart
	}
	c.rate = max(c.rate, least*l.best)
}

// unused reports whether a download's rate is for data that has arrived before: somebody waits
// for the rate, the link delivers much less, and there is no queue.
func (c *rateControl) unused(m measurement, l linkState) bool {
	settled := m.at.Sub(c.since) > usedOver+2*c.base
	noQueue := l.queue < l.aim && l.latest < 2*l.aim
	return !c.out && settled && noQueue && m.waited && c.arrivedIn(usedOver) < usedPart*c.rate
}

// othersTurn reports whether only the other direction adjusts its rate now. In turns, each knows that a
// queue is its own.
func (c *rateControl) othersTurn(at time.Time) bool {
	if c.other == nil || c.other.phase != pacing {
		return false
	}
	turn := max(turnFor, turnTrips*max(c.base, c.other.base))
	return (at.UnixNano()/int64(turn)%2 == 0) == c.out
}

func (c *rateControl) holdOff(at time.Time) {
	c.hold = min(max(2*c.hold, firstHold), longestHold)
	c.heldUntil = at.Add(c.hold)
}

// asked is when the request was sent.
func (m *measurement) asked() time.Time { return m.at.Add(-m.rtt) }

// setBase takes in a round trip, if it is the shortest.
func (c *rateControl) setBase(rtt time.Duration) {
	if c.base == 0 || rtt < c.base {
		c.base = rtt
	}
}

func (c *rateControl) add(m measurement) {
	if n := len(c.trips); m.answered || n == 0 || m.rtt > c.trips[n-1] {
		c.trips = append(c.trips[max(0, n+1-shortestOf):], m.rtt)
	}
	if m.answered {
		c.setBase(m.rtt)
		if c.phase == pacing {
			c.paced = append(c.paced[max(0, len(c.paced)+1-jitterOf):], m.rtt)
		}
	}
	if m.took == 0 {
		return
	}
	c.arrivals = append(c.arrivals, arrival{m.moved, m.took})
	s := speedAt{at: m.at}
	var sum arrival
	i := len(c.arrivals)
	for i > 0 && sum.took < costOver {
		i--
		sum.moved += c.arrivals[i].moved
		sum.took += c.arrivals[i].took
		if s.speed == 0 && sum.took >= speedOver {
			s.speed = sum.speed()
		}
	}
	c.arrivals = c.arrivals[i:]
	if sum.took >= costOver {
		s.steady = sum.speed()
	}
	if s.speed == 0 && sum.took >= firstSpeed {
		s.speed = sum.speed()
	}
	if s.speed > 0 {
		c.speeds = append(c.speeds, s)
	}
	for len(c.speeds) > 1 && m.at.Sub(c.speeds[0].at) > bestFor {
		c.speeds = c.speeds[1:]
	}
}

// arrivedIn is the speed over the last moment.
func (c *rateControl) arrivedIn(d time.Duration) float64 {
	var sum arrival
	for i := len(c.arrivals) - 1; i >= 0 && sum.took < d; i-- {
		sum.moved += c.arrivals[i].moved
		sum.took += c.arrivals[i].took
	}
	return sum.speed()
}

func (a arrival) speed() float64 { return float64(a.moved) / a.took.Seconds() }

// jitter is how much the last round trips differ: a computer that is late by as much leaves
// the link without data, unless the queue is longer.
func (c *rateControl) jitter() time.Duration {
	if len(c.paced) == 0 {
		return 0
	}
	return slices.Max(c.paced) - slices.Min(c.paced)
}

// fastest is the fastest since a time, or the last.
func (c *rateControl) fastest(since time.Time) float64 {
	fastest := c.speeds[len(c.speeds)-1].speed
	for _, s := range c.speeds {
		if s.at.After(since) {
			fastest = max(fastest, s.speed)
		}
	}
	return fastest
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
