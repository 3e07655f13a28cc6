//go:build linux

package realtest

import (
	"context"
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
	l.AskUnanswered, l.InUse = d.AskUnanswered, d.InUse
	l.Unacknowledged, l.Unanswered, l.LossyUnanswered = d.Unacknowledged, d.Unanswered, d.LossyUnanswered
	l.CloseUnanswered = d.CloseUnanswered
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

// neverShown has a person type during trouble, in which the host must not be shown as
// not responding. The trouble says how long a stall has lasted at most: a busy machine
// may make more of it, which proves nothing.
func neverShown(t *testing.T, l *laptop, trouble func(ctx context.Context) (longest time.Duration)) {
	t.Helper()
	h := l.mustLogin("lab-login")
	up := h.Status().Since
	p := newTypist(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var typing, watching sync.WaitGroup
	var err error
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
	longest := trouble(ctx)
	cancel()
	watching.Wait()
	l.lab.Delay(0, 0)
	typing.Wait()
	if s := h.Status(); err != nil || !s.Since.Equal(up) {
		t.Errorf("afterwards: %v, %s: %s", err, s.State, s.Cause)
	}
	t.Logf("%d echoes", p.echoes)
	switch {
	case len(alarms) > 0 && longest > 5*time.Second:
		t.Skipf("a busy machine made %v of a stall", longest)
	case len(alarms) > 0:
		t.Errorf("false alarms: %q", alarms)
	}
}

func TestALinkThatLosesThirtyPercentIsNoFalseAlarm(t *testing.T) {
	t.Parallel()
	l := newLaptop(t, options{limits: asOnRealHosts})
	neverShown(t, l, func(ctx context.Context) time.Duration {
		l.lab.Delay(40*time.Millisecond, 30)
		pause(ctx, 20*time.Second)
		return 0
	})
}

func TestStallsOfThreeSecondsAreNoFalseAlarm(t *testing.T) {
	t.Parallel()
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
