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

// slots bounds how many sessions are open at once on one connection. A server that
// allows fewer than we thought teaches it: some allow only one. That can have been for a
// while only, since sshd counts a command that was abandoned until it ends; so after a
// quiet time one more is tried where somebody waits for it.
type slots struct {
	most  int           // never more than these
	again time.Duration // the least quiet time

	mu      sync.Mutex
	limit   int           // what the server is thought to allow
	proven  int           // limit without what was raised since and not yet used
	open    int           // sessions that the server accepted
	pending int           // slots whose session it has not answered for
	ended   []time.Time   // when sessions did that the server may still count
	grown   bool          // limit was raised since it was lowered, and not proven
	quiet   time.Duration // how long until one more is tried
	since   time.Time     // when limit last changed, or the server last refused
	rest    time.Time     // none is taken before
	freed   chan struct{} // closed when a slot may have become free
}

func newSlots(most int, again time.Duration) *slots {
	return &slots{most: most, again: again, limit: most, proven: most, quiet: again, freed: make(chan struct{})}
}

// slot is the right to one session. It is given back once, by give or refused.
type slot struct {
	of     *slots
	opened bool
}

// take waits for a slot until ctx or the connection ends; nil then.
func (s *slots) take(ctx context.Context, done <-chan struct{}) *slot {
	return s.takeBelow(ctx, done, func() int { return s.limit })
}

// takeGuest is take for guests, who leave some slots alone. Where a server allows
// hardly any, a guest may still have one.
func (s *slots) takeGuest(ctx context.Context, done <-chan struct{}) *slot {
	return s.takeBelow(ctx, done, func() int { return max(1, s.limit-ownSessions) })
}

// takeBelow takes a slot once fewer than boundLocked are in use.
func (s *slots) takeBelow(ctx context.Context, done <-chan struct{}, boundLocked func() int) *slot {
	for {
		s.mu.Lock()
		now := time.Now()
		if !now.Before(s.rest) && s.open+s.pending >= boundLocked() {
			s.growLocked(now)
		}
		if !now.Before(s.rest) && s.open+s.pending < boundLocked() {
			s.pending++
			s.mu.Unlock()
			return &slot{of: s}
		}
		freed, wake := s.freed, s.nextLookLocked(now)
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

// takeLeaving is take for what holds on to its slot: spareSessions stay free, or at
// least one where there are few. It counts on nothing that the server has not proven: a
// relay that took the only session would leave none for commands.
func (s *slots) takeLeaving(ctx context.Context, done <-chan struct{}) (*slot, error) {
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
			return &slot{of: s}, nil
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
func (s *slots) growLocked(now time.Time) {
	if s.limit < s.most && now.Sub(s.since) >= s.quiet {
		s.limit++
		s.grown, s.since = true, now
	}
}

// nextLookLocked is how soon something may have changed without an event; 0: never.
func (s *slots) nextLookLocked(now time.Time) time.Duration {
	if rest := s.rest.Sub(now); rest > 0 {
		return rest
	}
	if s.limit < s.most {
		return max(s.since.Add(s.quiet).Sub(now), sessionRest)
	}
	return 0
}

// open says that the server accepted the session.
func (t *slot) open() {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	t.opened = true
	s.pending--
	s.open++
	s.limit, s.proven = max(s.limit, s.open), max(s.proven, s.open)
	if s.grown && s.open == s.limit {
		s.grown, s.quiet, s.since = false, s.again, time.Now()
	}
}

// give gives the slot back.
func (t *slot) give() {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	t.leaveLocked()
	if now := time.Now(); t.opened {
		s.lingeringLocked(now) // forgets the older ones
		s.ended = append(s.ended, now)
	}
	s.wakeLocked()
}

func (t *slot) leaveLocked() {
	if t.opened {
		t.of.open--
	} else {
		t.of.pending--
	}
}

// wakeLocked has everyone who waits look again.
func (s *slots) wakeLocked() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// lingeringLocked is how many sessions have ended that the server may still count.
func (s *slots) lingeringLocked(now time.Time) int {
	s.ended = slices.DeleteFunc(s.ended, func(at time.Time) bool { return now.Sub(at) >= sessionLag })
	return len(s.ended)
}

// refused gives back a slot that the server did not honour, and reports whether it is
// worth waiting for another: not when none but this one was in use, or just before.
// The limit falls to what the server counted then, however many are refused at once.
func (t *slot) refused() bool {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	t.leaveLocked()
	now := time.Now()
	lingering := s.lingeringLocked(now)
	if lingering > 0 || s.open+s.pending == 0 {
		s.rest = now.Add(sessionRest)
		s.wakeLocked() // the next one may have more luck, or must be told too
	}
	if counted := max(1, s.open+lingering); counted < s.limit {
		s.limit, s.proven = counted, min(s.proven, counted)
		if s.grown {
			s.quiet = min(2*s.quiet, maxSessionsAgain)
		}
		s.grown = false
	}
	s.since = now
	return s.open+s.pending+lingering > 0
}
