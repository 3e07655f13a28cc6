//go:build linux

package realssh

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

// The settings of these tests: six silent seconds are a sign of death.
const (
	keepalive = 2 * time.Second
	misses    = 2
	// slack is what a busy machine may take beyond a bound. That nothing but the machine
	// takes it is proven in fake time, by the tests of tunnel itself.
	slack = 20 * time.Second
	// dead is when a silent connection must have been given up: the silences, and the
	// one before the first question.
	dead = keepalive*(misses+1) + slack
	// usable is when a command runs again: a retry comes within two seconds.
	usable = 2*time.Second + slack
)

func quick(l *tunnel.Limits) { l.KeepaliveEvery, l.KeepaliveMax = keepalive, misses }

// await waits for a host to be as wanted and returns how long that took.
func await(t *testing.T, h *tunnel.Host, limit time.Duration, what string, wanted func(api.Host) bool) time.Duration {
	t.Helper()
	began := time.Now()
	late := time.After(limit)
	for {
		changed := h.Changed()
		s := h.Status()
		if wanted(s) {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the host is not %s after %v, but %s: %s", what, limit, s.State, s.Cause)
		}
	}
}

func isUp(h api.Host) bool { return h.State == api.HostUp }

// lostSince is for a host whose connection of that time is gone, whatever has come
// in its place.
func lostSince(up time.Time) func(api.Host) bool {
	return func(h api.Host) bool { return !isUp(h) || !h.Since.Equal(up) }
}

// TestAFrozenJumpHostIsFoundAndOutlived has the faults that the campaign of the whole program
// has not: somebody between the laptop and its host.
func TestAFrozenJumpHostIsFoundAndOutlived(t *testing.T) {
	l := newLaptop(t, options{limits: quick, config: withChain})
	for name, host := range map[string]string{"the only one": "lab-inner", "the first of two": "lab-deep"} {
		t.Run(name, func(t *testing.T) {
			h := l.Host(host)
			h.Up()
			await(t, h, patience, "up", isUp)
			up := h.Status().Since
			l.lab.FreezeConns("lab-jump")
			released := make(chan error, 1)
			go func() { // a caller in the middle of it must not hang either
				_, err := runHostname(context.WithoutCancel(t.Context()), h)
				released <- err
			}()
			found := await(t, h, dead, "found lost", lostSince(up))
			select {
			case <-released:
			case <-time.After(slack):
				t.Error("a command under way hangs")
			}
			again := await(t, h, usable, "up again", isUp)
			if out, err := runHostname(t.Context(), h); err != nil || out != "login1" {
				t.Errorf("afterwards hostname says %q, %v", out, err)
			}
			t.Logf("found after %v, usable after another %v", found.Round(time.Millisecond), again.Round(time.Millisecond))
		})
	}
}
