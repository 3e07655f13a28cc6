//go:build linux

package realssh

import (
	"context"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/wait"
	"tunctl/tunnel"
)

// The settings of these tests: six silent seconds are a sign of death.
const (
	keepalive = 2 * time.Second
	misses    = 2
)

func quick(l *tunnel.Limits) { l.KeepaliveEvery, l.KeepaliveMax = keepalive, misses }

// await waits for a host to be as wanted. How long that takes is for the tests of tunnel, which
// simulate the time.
func await(t *testing.T, h *tunnel.Host, what string, wanted func(api.Host) bool) {
	t.Helper()
	late := time.After(patience)
	for {
		changed := h.Changed()
		s := h.Status()
		if wanted(s) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the host is not %s, but %s: %s", what, s.State, s.Cause)
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
			await(t, h, "up", isUp)
			up := h.Status().Since
			l.lab.FreezeConns("lab-jump")
			released := make(chan error, 1)
			go func() { // a caller in the middle of it must not hang either
				_, err := runHostname(context.WithoutCancel(t.Context()), h)
				released <- err
			}()
			await(t, h, "found lost", lostSince(up))
			_ = wait.For(t, "a command under way ends", released)
			await(t, h, "up again", isUp)
			if out, err := runHostname(t.Context(), h); err != nil || out != "login1" {
				t.Errorf("afterwards hostname says %q, %v", out, err)
			}
		})
	}
}
