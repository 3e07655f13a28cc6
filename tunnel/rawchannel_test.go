package tunnel

import (
	"context"
	"testing"
)

func TestGuestsLeaveTwoSessionsToUs(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	for _, tc := range []struct{ limit, guests int }{{8, 6}, {3, 1}, {2, 1}, {1, 1}} {
		s := newSlots(tc.limit)
		for range tc.guests {
			if !s.takeGuest(t.Context(), done) {
				t.Fatalf("limit %d: no session for a guest", tc.limit)
			}
		}
		if s.takeGuest(over, done) {
			t.Errorf("limit %d: more than %d guests", tc.limit, tc.guests)
		}
		for range tc.limit - tc.guests {
			if !s.take(t.Context(), done) {
				t.Errorf("limit %d: none left for us", tc.limit)
			}
		}
	}
}

func TestAGuestGetsTheSessionThatAnotherGivesBack(t *testing.T) {
	s := newSlots(3)
	done := make(chan struct{})
	if !s.takeGuest(t.Context(), done) {
		t.Fatal("none free")
	}
	got := make(chan bool, 1)
	go func() { got <- s.takeGuest(t.Context(), done) }()
	s.give()
	if !<-got {
		t.Error("it waited in vain")
	}
}
