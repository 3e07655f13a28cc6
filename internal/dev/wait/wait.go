// Package wait bounds what tests wait for on the real clock.
package wait

import (
	"testing"
	"time"
)

// Limit bounds every wait; none is meant to take it, not even on a busy machine.
const Limit = 2 * time.Minute

// Until polls for what another process, or another goroutine, brings about.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(Limit); !is(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("waited without success: %s", what)
		}
	}
}

// For receives from a channel.
func For[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(Limit):
		t.Fatalf("waited without success: %s", what)
		panic("unreachable")
	}
}
