//go:build linux

package realssh

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
	l.ProbeAfter, l.InUse = d.ProbeAfter, d.InUse
	l.Unacknowledged, l.Unanswered, l.LossyUnanswered = d.Unacknowledged, d.Unanswered, d.LossyUnanswered
	l.ReplaceUnanswered = d.ReplaceUnanswered
}

// typist is the user at a shell of a host, who types and waits for the echo.
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

// It is not parallel: the labs of others change the computer's network, after which a
// connection must respond at once.
func TestALinkThatLosesThirtyPercentIsNoFalseAlarm(t *testing.T) {
	l := newLaptop(t, options{limits: asOnRealHosts})
	h := l.mustLogin("lab-login")
	up := h.Status().Since
	p := newTypist(t, h)
	l.lab.Delay(40*time.Millisecond, 30)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var ended error
	var typing sync.WaitGroup
	typing.Go(func() { ended = p.typeFor(ctx) })
	for ctx.Err() == nil {
		changed := h.Changed()
		if s := h.Status(); !s.NotRespondingSince.IsZero() {
			t.Errorf("a false alarm: %s", s.Cause)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	l.lab.Delay(0, 0)
	typing.Wait()
	t.Logf("%d echoes", p.echoes)
	if s := h.Status(); ended != nil || !s.Since.Equal(up) {
		t.Errorf("typing ended with %v; the host is %s: %s", ended, s.State, s.Cause)
	}
}
