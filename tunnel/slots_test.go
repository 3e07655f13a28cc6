package tunnel

import (
	"testing"
	"testing/synctest"
)

func TestARefusedSessionWakesWhoeverWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		s.take(t.Context(), nil)
		got := make(chan bool)
		go func() { got <- s.take(t.Context(), nil) }()
		synctest.Wait()
		if s.refused() {
			t.Error("with no other session in use it is worth waiting for one")
		}
		if !<-got { // a deadlock, which synctest tells, where nobody wakes it
			t.Error("no slot")
		}
	})
}
