//go:build linux

package realssh

import (
	"context"
	"errors"
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

// tolerance is how long a connection may be silent, at least, by steady's settings.
const tolerance = 10 * time.Second

// steady notices a stall of three seconds, by a question without an answer, and bears it.
func steady(l *tunnel.Limits) {
	l.KeepaliveEvery, l.KeepaliveMax, l.ReplaceUnanswered = keepalive, int(tolerance/keepalive), tolerance
}

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

func TestFaultsAreFoundAndRepairedWithinBounds(t *testing.T) {
	l := newLaptop(t, options{limits: quick, config: withChain})
	lab := l.lab
	for _, x := range []struct {
		name         string
		fail, repair func()
		host         string
		found        time.Duration // until it is known to be lost
	}{
		{
			name: "connection killed", host: "lab-login", found: slack,
			fail: func() { lab.KillConns("lab-login") },
		},
		{
			name: "server frozen by SIGSTOP", host: "lab-login", found: dead,
			fail: func() { lab.FreezeConns("lab-login") },
		},
		{
			name: "sshd restarted and its connections ended", host: "lab-login", found: slack,
			fail:   func() { lab.KillConns("lab-login"); lab.StopSSHD("lab-login") },
			repair: func() { lab.StartSSHD("lab-login") },
		},
		{
			name: "packets vanish, no FIN", host: "lab-login", found: dead,
			fail: func() { lab.Cut("silent") }, repair: func() { lab.Restore("silent") },
		},
		{
			name: "link of the laptop down", host: "lab-login", found: dead,
			fail: func() { lab.Cut("wifi") }, repair: func() { lab.Restore("wifi") },
		},
		{
			name: "another address", host: "lab-login", found: slack,
			fail: func() { lab.Roam() },
		},
		{
			name: "jump host frozen", host: "lab-inner", found: dead,
			fail: func() { lab.FreezeConns("lab-jump") },
		},
		{
			name: "first of two jump hosts frozen", host: "lab-deep", found: dead,
			fail: func() { lab.FreezeConns("lab-jump") },
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := l.Host(x.host)
			h.Up()
			await(t, h, patience, "up", isUp)
			up := h.Status().Since
			x.fail()
			released := make(chan error, 1)
			go func() { // a caller in the middle of it must not hang either
				_, err := runHostname(context.WithoutCancel(t.Context()), h)
				released <- err
			}()
			found := await(t, h, x.found, "found lost", lostSince(up))
			select {
			case <-released:
			case <-time.After(slack):
				t.Error("a command under way hangs")
			}
			if x.repair != nil {
				x.repair()
			}
			again := await(t, h, usable, "up again", isUp)
			if out, err := runHostname(t.Context(), h); err != nil || out != "login1" {
				t.Errorf("afterwards hostname says %q, %v", out, err)
			}
			t.Logf("found after %v (bound %v), usable after another %v (bound %v)",
				found.Round(time.Millisecond), x.found, again.Round(time.Millisecond), usable)
			if s := h.Status(); s.Auth != "publickey" {
				t.Errorf("logged in by %q", s.Auth)
			}
		})
	}
}

func TestStallsOfThreeSecondsDropNothing(t *testing.T) {
	l := newLaptop(t, options{limits: steady})
	h := l.mustLogin("lab-login")
	for _, x := range []struct {
		name         string
		fail, repair func()
	}{
		{"frozen server", func() { l.lab.FreezeConns("lab-login") }, func() { l.lab.ContConns("lab-login") }},
		{"packets vanish", func() { l.lab.Cut("silent") }, func() { l.lab.Restore("silent") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			for {
				since := h.Status().Since
				lasted, err := stall(t, h, x.fail, x.repair)
				s := h.Status()
				if err == nil && s.State == api.HostUp && s.Since.Equal(since) {
					return
				}
				if lasted < tolerance {
					t.Fatalf("after a stall of %v what was asked meanwhile says %v, and the host is %s since %v, was up since %v", lasted, err, s.State, s.Since, since)
				}
				t.Logf("a busy machine made %v of the stall, which proves nothing: once more", lasted)
				await(t, h, usable, "up again", isUp)
			}
		})
	}
}

// stall asks something of a host while it is out of reach for three seconds, and tells
// how long it took to be answered, and how.
func stall(t *testing.T, h *tunnel.Host, fail, repair func()) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	fail()
	said := make(chan error, 1)
	go func() {
		_, err := runHostname(t.Context(), h)
		said <- err
	}()
	select {
	case <-time.After(3 * time.Second):
		repair()
		return time.Since(began), <-said
	case err := <-said:
		repair()
		return time.Since(began), errors.Join(errors.New("a command ended during the stall"), err)
	}
}

func TestARestartOfSSHDAloneDropsNothing(t *testing.T) {
	l := newLaptop(t, options{limits: quick})
	h := l.mustLogin("lab-login")
	since := h.Status().Since
	l.lab.RestartSSHD("lab-login")
	if _, err := runHostname(t.Context(), h); err != nil || !h.Status().Since.Equal(since) {
		t.Errorf("after the restart: %v, up since %v, was since %v", err, h.Status().Since, since)
	}
}
