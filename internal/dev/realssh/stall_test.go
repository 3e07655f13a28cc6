//go:build linux

package realssh

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/tunnel"
)

// asOnRealHosts notices a stall as late as on real hosts, and gives a connection up
// later than any of these tests lasts.
func asOnRealHosts(l *tunnel.Limits) {
	d := tunnel.DefaultLimits()
	l.KeepaliveEvery, l.KeepaliveMax = d.KeepaliveEvery, d.KeepaliveMax
	l.ProbeAfter, l.InUse = d.ProbeAfter, d.InUse
	l.Unacknowledged, l.Unanswered, l.LossyUnanswered = d.Unacknowledged, d.Unanswered, d.LossyUnanswered
	l.ReplaceUnanswered = d.ReplaceUnanswered
}

// typist is a person at a shell of a host, who types and waits for the echo.
type typist struct {
	ssh.Channel
	echoes int
}

func newTypist(t *testing.T, h *tunnel.Host) *typist {
	t.Helper()
	ch, requests, err := h.OpenChannel(t.Context(), "session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	t.Cleanup(func() { _ = ch.Close() })
	if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"cat"})); err != nil || !ok {
		t.Fatalf("cat: %v %v", ok, err)
	}
	return &typist{Channel: ch}
}

// typeFor types until ctx ends.
func (p *typist) typeFor(ctx context.Context) error {
	for ctx.Err() == nil {
		if _, err := p.Write([]byte("x")); err != nil {
			return err
		}
		if _, err := io.ReadFull(p, make([]byte, 1)); err != nil {
			return err
		}
		p.echoes++
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}

// These tests are not parallel: the labs of others change the computer's network, after
// which a connection must respond at once.

// neverShown has a person type during trouble, in which the host must not be shown as
// not responding. The trouble says how long a stall has lasted at most: if a busy machine
// makes more of it, an alarm proves nothing, and all is done once more.
func neverShown(t *testing.T, l *laptop, trouble func(ctx context.Context) (longest time.Duration)) {
	t.Helper()
	h := l.mustLogin("lab-login")
	for {
		longest, err := typeThrough(t, l, h, trouble)
		if err == nil {
			return
		}
		if longest <= 5*time.Second {
			t.Fatal(err)
		}
		t.Logf("a busy machine made %v of a stall: %v", longest, err)
		await(t, h, usable, "up again", isUp)
	}
}

// typeThrough has a person type once. The error says how the host was shown as not
// responding, or that the connection was lost.
func typeThrough(t *testing.T, l *laptop, h *tunnel.Host, trouble func(ctx context.Context) time.Duration) (longest time.Duration, err error) {
	t.Helper()
	up := h.Status().Since
	p := newTypist(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var typing, watching sync.WaitGroup
	var alarms []string
	typing.Go(func() { err = p.typeFor(ctx) })
	watching.Go(func() {
		for ctx.Err() == nil {
			changed := h.Changed()
			if s := h.Status(); !s.NotRespondingSince.IsZero() {
				alarms = append(alarms, s.Cause)
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	longest = trouble(ctx)
	cancel()
	watching.Wait()
	l.lab.Delay(0, 0)
	typing.Wait()
	t.Logf("%d echoes", p.echoes)
	s := h.Status()
	switch {
	case err != nil:
		return longest, fmt.Errorf("typing ended: %w; the host is %s: %s", err, s.State, s.Cause)
	case !s.Since.Equal(up):
		return longest, fmt.Errorf("the connection was lost; the host is %s: %s", s.State, s.Cause)
	case len(alarms) > 0:
		return longest, fmt.Errorf("false alarms: %q", alarms)
	}
	return longest, nil
}

func TestALinkThatLosesThirtyPercentIsNoFalseAlarm(t *testing.T) {
	l := newLaptop(t, options{limits: asOnRealHosts})
	neverShown(t, l, func(ctx context.Context) time.Duration {
		l.lab.Delay(40*time.Millisecond, 30)
		pause(ctx, 20*time.Second)
		return 0
	})
}

func TestStallsOfThreeSecondsAreNoFalseAlarm(t *testing.T) {
	l := newLaptop(t, options{limits: asOnRealHosts})
	neverShown(t, l, func(ctx context.Context) (longest time.Duration) {
		for range 3 {
			began := time.Now()
			l.lab.Cut("silent")
			pause(ctx, 3*time.Second)
			l.lab.Restore("silent")
			longest = max(longest, time.Since(began))
			pause(ctx, 2*time.Second)
		}
		return longest
	})
}

// pause lets trouble last.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
