package tunnel

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestASessionThatJustEndedMayStillCountAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		take := func() {
			if !s.take(t.Context(), nil) {
				t.Fatal("no slot")
			}
		}
		take()
		s.give()
		start := time.Now()
		tries := 1
		for take(); s.refused(); take() {
			tries++
		}
		if took := time.Since(start); took < sessionLag || took > sessionLag+sessionRest || tries > 25 {
			t.Errorf("given up after %v and %d tries", took, tries)
		}
	})
}

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
