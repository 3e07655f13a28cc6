package tunnel

import (
	"context"
	"testing"
	"time"
)

func TestGuestsLeaveTwoSessionsToUs(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	for _, tc := range []struct{ limit, guests int }{{8, 6}, {3, 1}, {2, 1}, {1, 1}} {
		s := newSlots(tc.limit, time.Minute)
		for range tc.guests {
			if s.takeGuest(t.Context(), done) == nil {
				t.Fatalf("limit %d: no session for a guest", tc.limit)
			}
		}
		if s.takeGuest(over, done) != nil {
			t.Errorf("limit %d: more than %d guests", tc.limit, tc.guests)
		}
		for range tc.limit - tc.guests {
			if s.take(t.Context(), done) == nil {
				t.Errorf("limit %d: none left for us", tc.limit)
			}
		}
	}
}

func TestAGuestGetsTheSessionThatAnotherGivesBack(t *testing.T) {
	s := newSlots(3, time.Minute)
	done := make(chan struct{})
	first := s.takeGuest(t.Context(), done)
	if first == nil {
		t.Fatal("none free")
	}
	got := make(chan *slot, 1)
	go func() { got <- s.takeGuest(t.Context(), done) }()
	first.give()
	if <-got == nil {
		t.Error("it waited in vain")
	}
}
