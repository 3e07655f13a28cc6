package tunnel

import (
	"context"
	"sync"
	"time"
)

const (
	// sessionLag is how much later than we a server may notice that a session has
	// ended. It refuses the next one until then.
	sessionLag = 2 * time.Second
	// sessionRest is how long to leave it alone meanwhile.
	sessionRest = 100 * time.Millisecond
)

// slots bounds how many commands run at once over one connection. A server that
// allows fewer sessions than we thought teaches it: some allow only one.
type slots struct {
	mu    sync.Mutex
	limit int
	used  int
	ended time.Time     // when a session last did
	rest  time.Time     // none is taken before
	freed chan struct{} // closed when a slot may have become free
}

func newSlots(limit int) *slots {
	return &slots{limit: limit, freed: make(chan struct{})}
}

// take waits for a slot until ctx or the connection ends.
func (s *slots) take(ctx context.Context, done <-chan struct{}) bool {
	return s.takeBelow(ctx, done, func() int { return s.limit })
}

// takeGuest is take for guests, who leave some slots alone. Where a server allows
// hardly any, a guest may still have one.
func (s *slots) takeGuest(ctx context.Context, done <-chan struct{}) bool {
	return s.takeBelow(ctx, done, func() int { return max(1, s.limit-ownSessions) })
}

// takeBelow takes a slot once fewer than boundLocked are in use.
func (s *slots) takeBelow(ctx context.Context, done <-chan struct{}, boundLocked func() int) bool {
	for {
		s.mu.Lock()
		rest := time.Until(s.rest)
		if rest <= 0 && s.used < boundLocked() {
			s.used++
			s.mu.Unlock()
			return true
		}
		freed := s.freed
		s.mu.Unlock()
		var rested <-chan time.Time
		if rest > 0 {
			rested = time.After(rest)
		}
		select {
		case <-freed:
		case <-rested:
		case <-ctx.Done():
			return false
		case <-done:
			return false
		}
	}
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.ended = time.Now()
	s.wakeLocked()
}

// wakeLocked has everyone who waits look again.
func (s *slots) wakeLocked() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// refused gives back a slot that the server did not honour, and reports whether it
// is worth waiting for another: not when none but ours was in use, or just before.
func (s *slots) refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.used == 0 {
		s.wakeLocked() // the next one may have more luck, or must be told too
		now := time.Now()
		s.rest = now.Add(sessionRest)
		return now.Sub(s.ended) < sessionLag
	}
	s.limit = s.used
	return true
}
