package remote

import (
	"math/rand/v2"
	"time"
)

// Limits say how often a host may be queried. A site can only make DefaultLimits stricter.
type Limits struct {
	Query     time.Duration // between two queries of the scheduler
	QuerySlow time.Duration // the same once every watched job has waited for long
	SlowAfter time.Duration // what "for long" is
	QueryMin  time.Duration // between two queries, whoever requests them
	// QueryAfterSubmit is how soon after a submission that the user waits for one query may
	// come before QueryMin has passed; zero: none may.
	QueryAfterSubmit time.Duration
	Jitter           float64 // how much longer a wait may be, as a fraction

	// Connections is how many connections to the scheduler's server one round of queries
	// may make, for a scheduler that needs one per job, as PBS does.
	Connections int

	Command  time.Duration // how long one command may take
	Discover time.Duration // how long what `tunctl init` asks of a host may take

	LogFirst    time.Duration // between two reads of a log right after the submission, the start or an action of the user
	LogFirstFor time.Duration // how long "right after" is
	LogEarly    time.Duration // between two reads after that, once the log exists
	LogEarlyFor time.Duration // until when, also from the start on
	LogStarting time.Duration // between two reads until the job serves
	LogSettled  time.Duration // between two reads after that

	Stat             time.Duration // between two checks whether the log exists
	StatSlow         time.Duration // the same after StatSlowAfter
	StatSlowAfter    time.Duration
	StatSlowest      time.Duration // the same after StatSlowestAfter
	StatSlowestAfter time.Duration
}

// DefaultLimits are accepted by every known site.
func DefaultLimits() Limits {
	return Limits{
		Query:     time.Minute,
		QuerySlow: 5 * time.Minute,
		SlowAfter: 30 * time.Minute,
		QueryMin:  10 * time.Second,

		QueryAfterSubmit: 2500 * time.Millisecond,
		Jitter:           0.2,

		Connections: 2,

		Command:  30 * time.Second,
		Discover: 20 * time.Second,

		LogFirst:    time.Second,
		LogFirstFor: 20 * time.Second,
		LogEarly:    2 * time.Second,
		LogEarlyFor: time.Minute,
		LogStarting: 12 * time.Second,
		LogSettled:  time.Minute,

		Stat:             12 * time.Second,
		StatSlow:         time.Minute,
		StatSlowAfter:    10 * time.Minute,
		StatSlowest:      5 * time.Minute,
		StatSlowestAfter: 30 * time.Minute,
	}
}

// PracticeLimits are short, for a practice cluster on this machine only.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.Query = time.Second
	l.QuerySlow = 2 * time.Second
	l.QueryMin = 200 * time.Millisecond
	l.QueryAfterSubmit = 100 * time.Millisecond
	l.LogFirst = 100 * time.Millisecond
	l.LogEarly = 100 * time.Millisecond
	l.LogStarting = 250 * time.Millisecond
	l.LogSettled = time.Second
	l.Stat = 150 * time.Millisecond
	l.StatSlow = time.Second
	l.StatSlowest = time.Second
	return l
}

// LookApart is how far apart two queries must be that do not find a job before it counts as gone.
func (l Limits) LookApart() time.Duration { return min(time.Minute, l.Query) }

// LogInterval is the time between two reads of what a job writes, that long after its start.
func (l Limits) LogInterval(since time.Duration) time.Duration {
	switch {
	case since < l.LogFirstFor:
		return l.LogFirst
	case since < l.LogEarlyFor:
		return l.LogEarly
	}
	return l.LogStarting
}

// WithJitter lengthens d by a random part of the jitter. It never shortens d, which may be the
// minimum that a site demands.
func (l Limits) WithJitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*l.Jitter*float64(d)) //nolint:gosec // spreading load needs no secrecy
}

// StatInterval is the time between two checks for a file, after having waited for it so
// long. It is shorter around the expected start of the job.
func (l Limits) StatInterval(waited time.Duration, expected time.Time) time.Duration {
	slow := l.Stat
	switch {
	case waited > l.StatSlowestAfter:
		slow = l.StatSlowest
	case waited > l.StatSlowAfter:
		slow = l.StatSlow
	}
	toStart := time.Until(expected)
	if expected.IsZero() || toStart < -l.StatSlowest {
		return slow
	}
	return min(slow, max(l.Stat, toStart-2*l.StatSlow))
}
