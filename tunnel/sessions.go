package tunnel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

const (
	// sessionLag is how much later than we a server may notice that a session has
	// ended. It refuses the next one until then.
	sessionLag = 2 * time.Second
	// sessionRest is how long to leave it alone meanwhile.
	sessionRest = 100 * time.Millisecond
	// maxSessionsAgain bounds the wait before one more session is tried.
	maxSessionsAgain = time.Hour
)

// sessionLimit bounds how many sessions are open at once on one connection. A server that
// allows fewer than we thought teaches it: some allow only one. That can have been for a
// while only, since sshd counts a command that was abandoned until it ends; so after a
// quiet time one more is tried where somebody waits for it.
type sessionLimit struct {
	ceiling      int           // never more than these
	minGrowAfter time.Duration // the least quiet time

	mu        sync.Mutex
	limit     int           // what the server is thought to allow
	proven    int           // limit without what was raised since and not yet used
	open      int           // sessions that the server accepted
	pending   int           // slots whose session it has not answered for
	ended     []time.Time   // when sessions did that the server may still count
	grown     bool          // limit was raised since it was lowered, and not proven
	growAfter time.Duration // how long until one more is tried
	changedAt time.Time     // when limit last changed, or the server last refused
	restUntil time.Time     // none is taken before
	freed     chan struct{} // closed when a slot may have become free
}

func newSessionLimit(most int, again time.Duration) *sessionLimit {
	return &sessionLimit{ceiling: most, minGrowAfter: again, limit: most, proven: most, growAfter: again, freed: make(chan struct{})}
}

// sessionSlot is the right to one session. It is given back once, by give or refused.
type sessionSlot struct {
	limit  *sessionLimit
	opened bool
}

// acquire waits for a slot until ctx or the connection ends; nil then.
func (s *sessionLimit) acquire(ctx context.Context, done <-chan struct{}) *sessionSlot {
	return s.acquireBelow(ctx, done, func() int { return s.limit })
}

// acquireShared is take for guests, who leave some slots alone. Where a server allows
// hardly any, a guest may still have one.
func (s *sessionLimit) acquireShared(ctx context.Context, done <-chan struct{}) *sessionSlot {
	return s.acquireBelow(ctx, done, func() int { return max(1, s.limit-reservedSessions) })
}

// acquireBelow takes a slot once fewer than boundLocked are in use.
func (s *sessionLimit) acquireBelow(ctx context.Context, done <-chan struct{}, boundLocked func() int) *sessionSlot {
	for {
		s.mu.Lock()
		now := time.Now()
		if !now.Before(s.restUntil) && s.open+s.pending >= boundLocked() {
			s.growLocked(now)
		}
		if !now.Before(s.restUntil) && s.open+s.pending < boundLocked() {
			s.pending++
			s.mu.Unlock()
			return &sessionSlot{limit: s}
		}
		freed, wake := s.freed, s.nextCheckLocked(now)
		s.mu.Unlock()
		var waited <-chan time.Time
		if wake > 0 {
			waited = time.After(wake)
		}
		select {
		case <-freed:
		case <-waited:
		case <-ctx.Done():
			return nil
		case <-done:
			return nil
		}
	}
}

// acquireForStream is take for what holds on to its slot: spareSessions stay free, or at
// least one where there are few. It counts on nothing that the server has not proven: a
// relay that took the only session would leave none for commands.
func (s *sessionLimit) acquireForStream(ctx context.Context, done <-chan struct{}) (*sessionSlot, error) {
	for {
		s.mu.Lock()
		few := s.proven < 2
		free := !few && s.open+s.pending+min(spareSessions, s.proven-1) < s.proven
		if free {
			s.pending++
		}
		freed := s.freed
		s.mu.Unlock()
		switch {
		case few:
			return nil, &noWayError{"a command on the host", errFewSessions}
		case free:
			return &sessionSlot{limit: s}, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a free session: %w", ctx.Err())
		case <-done:
			return nil, api.ErrDown
		}
	}
}

// growLocked allows one session more after a quiet time.
func (s *sessionLimit) growLocked(now time.Time) {
	if s.limit < s.ceiling && now.Sub(s.changedAt) >= s.growAfter {
		s.limit++
		s.grown, s.changedAt = true, now
	}
}

// nextCheckLocked is how soon something may have changed without an event; 0: never.
func (s *sessionLimit) nextCheckLocked(now time.Time) time.Duration {
	if rest := s.restUntil.Sub(now); rest > 0 {
		return rest
	}
	if s.limit < s.ceiling {
		return max(s.changedAt.Add(s.growAfter).Sub(now), sessionRest)
	}
	return 0
}

// accepted says that the server accepted the session.
func (t *sessionSlot) accepted() {
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

// release gives the slot back.
func (t *sessionSlot) release() {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uncountLocked()
	if now := time.Now(); t.opened {
		s.lingeringLocked(now) // forgets the older ones
		s.ended = append(s.ended, now)
	}
	s.wakeLocked()
}

func (t *sessionSlot) uncountLocked() {
	if t.opened {
		t.limit.open--
	} else {
		t.limit.pending--
	}
}

// wakeLocked has everyone who waits look again.
func (s *sessionLimit) wakeLocked() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// lingeringLocked is how many sessions have ended that the server may still count.
func (s *sessionLimit) lingeringLocked(now time.Time) int {
	s.ended = slices.DeleteFunc(s.ended, func(at time.Time) bool { return now.Sub(at) >= sessionLag })
	return len(s.ended)
}

// refused gives back a slot that the server did not honour, and reports whether it is
// worth waiting for another: not when none but this one was in use, or just before.
// The limit falls to what the server counted then, however many are refused at once.
func (t *sessionSlot) refused() bool {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uncountLocked()
	now := time.Now()
	lingering := s.lingeringLocked(now)
	if lingering > 0 || s.open+s.pending == 0 {
		s.restUntil = now.Add(sessionRest)
		s.wakeLocked() // the next one may have more luck, or must be told too
	}
	if counted := max(1, s.open+lingering); counted < s.limit {
		s.limit, s.proven = counted, min(s.proven, counted)
		if s.grown {
			s.growAfter = min(2*s.growAfter, maxSessionsAgain)
		}
		s.grown = false
	}
	s.changedAt = now
	return s.open+s.pending+lingering > 0
}
