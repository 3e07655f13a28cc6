package channels

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// server is a server that allows some sessions at once, and notices late that one has
// ended.
type server struct {
	t     *testing.T
	limit *Limit
	allow int
	open  []*Slot
	gone  []time.Time // when sessions will be noticed to have ended
	asked int         // server that it refused
}

func newServer(t *testing.T, allow int) *server {
	return &server{t: t, limit: New(8, time.Minute), allow: allow}
}

// start takes a slot that must be free at once.
func (s *server) start() *Slot {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Millisecond)
	defer cancel()
	slot, err := s.limit.Acquire(ctx, nil)
	if err != nil {
		s.t.Fatalf("no slot with %d of %d open", len(s.open), s.allow)
	}
	return slot
}

// answer has the server accept or refuse the sessions of some slots.
func (s *server) answer(slots ...*Slot) (accepted int) {
	for _, slot := range slots {
		counted := len(s.open)
		for _, at := range s.gone {
			if time.Now().Before(at) {
				counted++
			}
		}
		if counted >= s.allow {
			s.asked++
			slot.Refused()
			continue
		}
		slot.Accepted()
		s.open = append(s.open, slot)
		accepted++
	}
	return accepted
}

// end ends so many sessions, which the server notices after a while.
func (s *server) end(n int, late time.Duration) {
	for _, slot := range s.open[:n] {
		slot.Release()
		s.gone = append(s.gone, time.Now().Add(late))
	}
	s.open = s.open[n:]
}

// free is how many sessions can be opened at once now.
func (s *server) free() int {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	var taken []*Slot
	for slot, err := s.limit.Acquire(ctx, nil); err == nil; slot, err = s.limit.Acquire(ctx, nil) {
		taken = append(taken, slot)
	}
	for _, slot := range taken {
		slot.Release()
	}
	return len(taken)
}

func TestSessionsRefusedForOneCauseLowerTheLimitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 4)
		s.answer(s.start(), s.start(), s.start(), s.start(), s.start())
		if got := s.limit.limit; got != 4 {
			t.Fatalf("the limit is %d", got)
		}
		s.end(3, time.Second)
		s.answer(s.start(), s.start(), s.start()) // before the server has noticed
		time.Sleep(Lag)
		if got := s.free(); got != 3 {
			t.Errorf("beside one, %d sessions are free, where the server allows 4", got)
		}
		if _, err := s.limit.AcquireForStream(t.Context(), nil); err != nil {
			t.Errorf("a relay onto a node: %v", err)
		}
	})
}

func TestASessionLimitFallsToWhatTheServerAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 1)
		var slots []*Slot
		for range 5 {
			slots = append(slots, s.start())
		}
		s.answer(slots...)
		if s.limit.limit != 1 || s.free() != 0 {
			t.Errorf("the limit is %d, and %d are free", s.limit.limit, s.free())
		}
		s.end(1, 0)
		if got := s.free(); got != 1 {
			t.Errorf("%d are free", got)
		}
	})
}

func TestTheSessionLimitIsLearntUpwardsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 1) // seven abandoned commands still run there
		s.answer(s.start(), s.start())
		s.allow = 8
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		if _, err := s.limit.Acquire(ctx, nil); err == nil {
			t.Error("one more within a minute of a refusal")
		}
		for want := 2; want <= 8; want++ {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			slot, err := s.limit.Acquire(ctx, nil) // whoever waits tries it
			cancel()
			if waited := time.Since(began); err != nil || waited > time.Minute {
				t.Fatalf("session %d after %v", want, waited)
			}
			s.answer(slot)
		}
		if s.asked != 1 {
			t.Errorf("%d were refused", s.asked)
		}
	})
}

func TestAServerThatAllowsOneSessionIsSeldomAskedForTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, 1)
		s.answer(s.start())
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		for { // somebody waits all day
			slot, err := s.limit.Acquire(ctx, nil)
			if err != nil {
				break
			}
			s.answer(slot)
		}
		if s.asked > 30 {
			t.Errorf("%d were refused in a day", s.asked)
		}
		if _, err := s.limit.AcquireForStream(t.Context(), nil); err == nil {
			t.Error("a relay counts on a session that was never there")
		}
	})
}

func TestASessionThatJustEndedMayStillCountAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(8, time.Minute)
		take := func() *Slot {
			slot, err := s.Acquire(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return slot
		}
		first := take()
		first.Accepted()
		first.Release()
		start := time.Now()
		tries := 1
		for take().Refused() {
			tries++
		}
		if took := time.Since(start); took < Lag || took > Lag+restTime || tries > 25 {
			t.Errorf("given up after %v and %d tries", took, tries)
		}
	})
}

func TestARefusedSessionWakesWhoeverWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, time.Minute)
		first, err := s.Acquire(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			_, err := s.Acquire(t.Context(), nil)
			got <- err
		}()
		synctest.Wait()
		if first.Refused() {
			t.Error("with no other session in use it is worth waiting for one")
		}
		if err := <-got; err != nil { // a deadlock, which synctest tells, where nobody wakes it
			t.Error(err)
		}
	})
}

func TestConnectionsLeaveSessionsToCommands(t *testing.T) {
	for _, tt := range []struct{ limit, connections int }{{10, 8}, {8, 6}, {3, 1}, {2, 1}, {1, 0}} {
		t.Run(strconv.Itoa(tt.limit), func(t *testing.T) {
			s := New(tt.limit, time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			got := 0
			for ; ; got++ {
				if _, err := s.AcquireForStream(ctx, nil); err != nil {
					break
				}
			}
			if got != tt.connections {
				t.Errorf("%d connections, want %d", got, tt.connections)
			}
		})
	}
}

func TestGuestsLeaveTwoSessionsToUs(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	for _, tc := range []struct{ limit, shared int }{{8, 6}, {3, 1}, {2, 1}, {1, 1}} {
		s := New(tc.limit, time.Minute)
		for range tc.shared {
			if _, err := s.AcquireShared(t.Context(), done); err != nil {
				t.Fatalf("limit %d: no shared session: %v", tc.limit, err)
			}
		}
		if _, err := s.AcquireShared(over, done); err == nil {
			t.Errorf("limit %d: more than %d shared", tc.limit, tc.shared)
		}
		for range tc.limit - tc.shared {
			if _, err := s.Acquire(t.Context(), done); err != nil {
				t.Errorf("limit %d: none left for us: %v", tc.limit, err)
			}
		}
	}
}

func TestAGuestGetsTheSessionThatAnotherGivesBack(t *testing.T) {
	s := New(3, time.Minute)
	done := make(chan struct{})
	first, err := s.AcquireShared(t.Context(), done)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := s.AcquireShared(t.Context(), done)
		got <- err
	}()
	first.Release()
	if err := <-got; err != nil {
		t.Errorf("it waited in vain: %v", err)
	}
}
