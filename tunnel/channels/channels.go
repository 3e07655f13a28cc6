// Package channels bounds how many session channels are open at once on one connection, and learns
// from refusals what the server allows. It opens none itself.
package channels

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

const (
	// Lag is how long after its end a server may still count a session, and refuse
	// the next one.
	Lag = 2 * time.Second
	// restTime is the pause after such a refusal.
	restTime = 100 * time.Millisecond
	// maxGrowAfter bounds the wait before one more session is tried.
	maxGrowAfter = time.Hour
)

// ErrFew is why a connection carries no streams.
var ErrFew = errors.New("the host allows only one session at a time, which is kept for commands")

// reserved is how many of a connection's sessions are reserved for our own
// commands, so that the user's open shells and streams never stop the watching of a job.
const reserved = 2

// Limit bounds how many sessions are open at once on one connection. It learns
// from refusals: some servers allow only one. A refusal can be temporary, since sshd
// counts an abandoned command until it ends. So, if somebody waits, one more session is
// tried after some time without refusals.
type Limit struct {
	ceiling      int           // never more
	minGrowAfter time.Duration // the smallest growAfter

	mu        sync.Mutex
	limit     int           // what the server probably allows
	proven    int           // the part of limit that the server has accepted
	open      int           // sessions that the server accepted
	pending   int           // slots whose session is not yet accepted or refused
	ended     []time.Time   // when sessions ended that the server may still count
	grown     bool          // limit was raised, and that is not proven yet
	growAfter time.Duration // how long after changedAt one more is tried
	changedAt time.Time     // when limit last changed, or the server last refused
	restUntil time.Time     // no slot is given before
	freed     chan struct{} // closed when a slot may be free
}

// New is the limit of a new connection. One more than the server allows is tried after some
// time.
func New(ceiling int, growAfter time.Duration) *Limit {
	return &Limit{ceiling: ceiling, minGrowAfter: growAfter, limit: ceiling, proven: ceiling, growAfter: growAfter, freed: make(chan struct{})}
}

// Slot is the right to one session. It is given back once, by Release or
// Refused.
type Slot struct {
	limit  *Limit
	opened bool
}

// Acquire waits for a slot. It fails when ctx or the connection ends.
func (s *Limit) Acquire(ctx context.Context, done <-chan struct{}) (*Slot, error) {
	return s.acquireBelow(ctx, done, true, func() int { return s.limit })
}

// AcquireShared is acquire for the user's shell or copy. It leaves reserved
// free, but one shared session is always possible.
func (s *Limit) AcquireShared(ctx context.Context, done <-chan struct{}) (*Slot, error) {
	return s.acquireBelow(ctx, done, true, func() int { return max(1, s.limit-reserved) })
}

// acquireBelow waits until fewer than boundLocked slots are in use; if that is zero, there is
// none to wait for. If more may be tried, it tries one more than the limit after some time.
func (s *Limit) acquireBelow(ctx context.Context, done <-chan struct{}, more bool, boundLocked func() int) (*Slot, error) {
	for {
		s.mu.Lock()
		now, used := time.Now(), s.open+s.pending
		rests := now.Before(s.restUntil)
		if more && !rests && used >= boundLocked() && s.limit < s.ceiling && now.Sub(s.changedAt) >= s.growAfter {
			s.limit++
			s.grown, s.changedAt = true, now
		}
		bound := boundLocked()
		free := !rests && used < bound
		if free {
			s.pending++
		}
		freed, wake := s.freed, s.nextCheckLocked(now)
		s.mu.Unlock()
		if free {
			return &Slot{limit: s}, nil
		}
		if bound == 0 {
			return nil, failure.OfCommand(ErrFew)
		}
		var waited <-chan time.Time
		if wake > 0 {
			waited = time.After(wake)
		}
		select {
		case <-freed:
		case <-waited:
		case <-ctx.Done():
			return nil, api.Errorf(api.CodeTimeout, "no SSH session of the connection became free in time").Because(ctx.Err())
		case <-done:
			return nil, api.ErrDown
		}
	}
}

// AcquireForStream is acquire for a stream, which holds its slot for long. It leaves
// reserved free, or at least one. It counts only on proven sessions: a relay that
// took the only session would leave none for commands.
func (s *Limit) AcquireForStream(ctx context.Context, done <-chan struct{}) (*Slot, error) {
	return s.acquireBelow(ctx, done, false, func() int {
		if s.proven < 2 {
			return 0
		}
		return s.proven - min(reserved, s.proven-1)
	})
}

// InUse is how many sessions are in use, and how many may be.
func (s *Limit) InUse() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open + s.pending, s.limit
}

// nextCheckLocked is when to look again without an event; 0: never.
func (s *Limit) nextCheckLocked(now time.Time) time.Duration {
	if rest := s.restUntil.Sub(now); rest > 0 {
		return rest
	}
	if s.limit < s.ceiling {
		return max(s.changedAt.Add(s.growAfter).Sub(now), restTime)
	}
	return 0
}

// Accepted records that the server accepted the session.
func (t *Slot) Accepted() {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.opened = true
	s.pending--
	s.open++
	s.limit, s.proven = max(s.limit, s.open), max(s.proven, s.open)
	if s.grown && s.open == s.limit {
		s.grown, s.growAfter, s.changedAt = false, s.minGrowAfter, time.Now()
	}
}

// Release gives the slot back.
func (t *Slot) Release() {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uncountLocked()
	if now := time.Now(); t.opened {
		s.lingeringLocked(now) // drops the older ones
		s.ended = append(s.ended, now)
	}
	s.wakeLocked()
}

// IsLast reports whether the server probably allows no session besides those in use.
func (t *Slot) IsLast() bool {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.opened && s.open+s.pending >= s.limit
}

func (t *Slot) uncountLocked() {
	if t.opened {
		t.limit.open--
	} else {
		t.limit.pending--
	}
}

// wakeLocked makes all waiting callers look again.
func (s *Limit) wakeLocked() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// lingeringLocked counts the ended sessions that the server may still count.
func (s *Limit) lingeringLocked(now time.Time) int {
	s.ended = slices.DeleteFunc(s.ended, func(at time.Time) bool { return now.Sub(at) >= Lag })
	return len(s.ended)
}

// Refused gives back a slot whose session the server refused, and reports whether to
// wait for another: not if this was the only one, and none has just ended. The limit
// falls to what the server counted, no matter how many are refused at once.
func (t *Slot) Refused() bool {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uncountLocked()
	now := time.Now()
	lingering := s.lingeringLocked(now)
	if lingering > 0 || s.open+s.pending == 0 {
		s.restUntil = now.Add(restTime)
		s.wakeLocked() // the next caller may succeed, or must fail too
	}
	if counted := max(1, s.open+lingering); counted < s.limit {
		s.limit, s.proven = counted, min(s.proven, counted)
		if s.grown {
			s.growAfter = min(2*s.growAfter, maxGrowAfter)
		}
		s.grown = false
	}
	s.changedAt = now
	return s.open+s.pending+lingering > 0
}
