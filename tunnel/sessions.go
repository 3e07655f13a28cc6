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
	// sessionLag is how long after its end a server may still count a session, and refuse
	// the next one.
	sessionLag = 2 * time.Second
	// sessionRest is the pause after such a refusal.
	sessionRest = 100 * time.Millisecond
	// maxSessionsAgain bounds the wait before one more session is tried.
	maxSessionsAgain = time.Hour
)

// sessionLimit bounds how many sessions are open at once on one connection. It learns
// from refusals: some servers allow only one. A refusal can be temporary, since sshd
// counts an abandoned command until it ends. So, if somebody waits, one more session is
// tried after some time without refusals.
type sessionLimit struct {
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

func newSessionLimit(ceiling int, growAfter time.Duration) *sessionLimit {
	return &sessionLimit{ceiling: ceiling, minGrowAfter: growAfter, limit: ceiling, proven: ceiling, growAfter: growAfter, freed: make(chan struct{})}
}

// sessionSlot is the right to one session. It is given back once, by release or refused.
type sessionSlot struct {
	limit  *sessionLimit
	opened bool
}

// acquire waits for a slot. It returns nil when ctx or the connection ends.
func (s *sessionLimit) acquire(ctx context.Context, done <-chan struct{}) *sessionSlot {
	return s.acquireBelow(ctx, done, func() int { return s.limit })
}

// acquireShared is acquire for a person's shell or copy. It leaves reservedSessions
// free, but one shared session is always possible.
func (s *sessionLimit) acquireShared(ctx context.Context, done <-chan struct{}) *sessionSlot {
	return s.acquireBelow(ctx, done, func() int { return max(1, s.limit-reservedSessions) })
}

// acquireBelow waits until fewer than boundLocked slots are in use.
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

// acquireForStream is acquire for a stream, which holds its slot for long. It leaves
// reservedSessions free, or at least one. It counts only on proven sessions: a relay that
// took the only session would leave none for commands.
func (s *sessionLimit) acquireForStream(ctx context.Context, done <-chan struct{}) (*sessionSlot, error) {
	for {
		s.mu.Lock()
		few := s.proven < 2
		free := !few && s.open+s.pending+min(reservedSessions, s.proven-1) < s.proven
		if free {
			s.pending++
		}
		freed := s.freed
		s.mu.Unlock()
		switch {
		case few:
			return nil, commandError(ErrFewSessions)
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

// inUse is how many sessions are in use, and how many may be.
func (s *sessionLimit) inUse() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open + s.pending, s.limit
}

// growLocked raises the limit by one after growAfter.
func (s *sessionLimit) growLocked(now time.Time) {
	if s.limit < s.ceiling && now.Sub(s.changedAt) >= s.growAfter {
		s.limit++
		s.grown, s.changedAt = true, now
	}
}

// nextCheckLocked is when to look again without an event; 0: never.
func (s *sessionLimit) nextCheckLocked(now time.Time) time.Duration {
	if rest := s.restUntil.Sub(now); rest > 0 {
		return rest
	}
	if s.limit < s.ceiling {
		return max(s.changedAt.Add(s.growAfter).Sub(now), sessionRest)
	}
	return 0
}

// accepted records that the server accepted the session.
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
		s.lingeringLocked(now) // drops the older ones
		s.ended = append(s.ended, now)
	}
	s.wakeLocked()
}

// isLast reports whether the server probably allows no session besides those in use.
func (t *sessionSlot) isLast() bool {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.opened && s.open+s.pending >= s.limit
}

// endSession gives a slot back whose session we closed. After the last one that the host
// allows, it first waits for the reply to a request: OpenSSH counts a session until it has
// processed its end, and refuses one that is opened right behind.
func (c *conn) endSession(slot *sessionSlot) {
	if c.master != nil || !slot.isLast() {
		slot.release()
		return
	}
	release := sync.OnceFunc(slot.release)
	if !c.spawn(func() {
		late := time.AfterFunc(sessionLag, release)
		defer late.Stop()
		_, _ = c.roundTrip()
		release()
	}) {
		release()
	}
}

func (t *sessionSlot) uncountLocked() {
	if t.opened {
		t.limit.open--
	} else {
		t.limit.pending--
	}
}

// wakeLocked makes all waiting callers look again.
func (s *sessionLimit) wakeLocked() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// lingeringLocked counts the ended sessions that the server may still count.
func (s *sessionLimit) lingeringLocked(now time.Time) int {
	s.ended = slices.DeleteFunc(s.ended, func(at time.Time) bool { return now.Sub(at) >= sessionLag })
	return len(s.ended)
}

// refused gives back a slot whose session the server refused, and reports whether to
// wait for another: not if this was the only one, and none has just ended. The limit
// falls to what the server counted, no matter how many are refused at once.
func (t *sessionSlot) refused() bool {
	s := t.limit
	s.mu.Lock()
	defer s.mu.Unlock()
	t.uncountLocked()
	now := time.Now()
	lingering := s.lingeringLocked(now)
	if lingering > 0 || s.open+s.pending == 0 {
		s.restUntil = now.Add(sessionRest)
		s.wakeLocked() // the next caller may succeed, or must fail too
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
