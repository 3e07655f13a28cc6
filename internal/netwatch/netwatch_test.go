package netwatch

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// changesInAnHour counts what a watch makes of an hour.
func changesInAnHour(t *testing.T, events <-chan struct{}, clock func() time.Time, network func() string) int {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	n := 0
	watch(ctx, events, clock, network, func() { n++ }, slog.New(slog.DiscardHandler))
	return n
}

func TestWatchWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Time {
			now := time.Now()
			if now.Sub(start) > 30*time.Minute {
				now = now.Add(8 * time.Hour)
			}
			return now.Round(0)
		}
		if n := changesInAnHour(t, nil, clock, func() string { return "" }); n != 1 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestWatchChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		network := func() string {
			if time.Since(start) > 20*time.Minute {
				return "10.0.0.2/24"
			}
			return "10.0.0.1/24"
		}
		events := make(chan struct{})
		for _, at := range []time.Duration{10 * time.Minute, 20*time.Minute + 1} {
			time.AfterFunc(at, func() {
				for range 100 { // a router renews its routes
					events <- struct{}{}
				}
			})
		}
		if n := changesInAnHour(t, events, wallClock, network); n != 1 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestFingerprint(t *testing.T) {
	if a, b := fingerprint(), fingerprint(); a != b {
		t.Errorf("it differs at rest: %q, %q", a, b)
	}
}

func TestHasAddress(t *testing.T) {
	if HasAddress(netip.MustParseAddr("192.0.2.1")) { // for documentation only
		t.Error("this machine has it")
	}
	for _, a := range addresses() {
		if ip, _ := netip.AddrFromSlice(a.IP); !HasAddress(ip.Unmap()) {
			t.Errorf("this machine does not have its own %v", a)
		}
	}
}
