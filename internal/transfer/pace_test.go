package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// link is one of a rate and a round trip, with a queue without end before it.
type link struct {
	rate float64 // bytes a second
	rtt  time.Duration
}

// holds is how much is under way on the link itself.
func (l link) holds() int { return int(l.rate * l.rtt.Seconds()) }

// ping is the round trip while so much is under way.
func (l link) ping(inFlight int) time.Duration {
	return l.rtt + time.Duration(float64(max(0, inFlight-l.holds()))/l.rate*float64(time.Second))
}

func TestACopyFillsTheLinkButNotItsQueue(t *testing.T) {
	for name, l := range map[string]link{
		"at home":       {12.5e6, 20 * time.Millisecond},
		"far and wide":  {60e6, 100 * time.Millisecond},
		"narrow":        {1.25e6, 40 * time.Millisecond},
		"near and wide": {1e9, 300 * time.Microsecond},
	} {
		for when, start := range map[string]int{"found empty": 0, "found full": 1 << 20} {
			t.Run(name+", "+when, func(t *testing.T) {
				p := newPace(nil)
				p.measured(l.ping(start))
				worst, least := time.Duration(0), maxInFlight
				for i := range 1000 {
					p.inFlight = p.limit // the copy takes all that it may
					rtt := l.ping(p.inFlight)
					if i > 600 && p.pings < holdBack {
						worst, least = max(worst, rtt), min(least, p.limit)
					}
					p.measured(rtt)
				}
				// A step of an eighth of what is under way is past the mark.
				if most := l.rtt + max(l.rtt, minQueue)*3/2 + l.rtt/2; worst > most {
					t.Errorf("a round trip took %v, want at most %v", worst, most)
				}
				if want := min(l.holds(), maxInFlight) * 8 / 10; least < want {
					t.Errorf("only %d bytes were under way, of %d that the link holds", least, l.holds())
				}
			})
		}
	}
}

func TestAWayThatBecameLongerIsUsedAgainInTime(t *testing.T) {
	p := newPace(nil)
	before, after := link{50e6, 20 * time.Millisecond}, link{50e6, 80 * time.Millisecond}
	for range 50 {
		p.inFlight = p.limit
		p.measured(before.ping(p.inFlight))
	}
	for range 2 * holdBack {
		p.inFlight = p.limit
		p.measured(after.ping(p.inFlight))
	}
	if want := after.holds() / 2; p.limit < want {
		t.Errorf("%d bytes may be under way, want %d and more", p.limit, want)
	}
}

func TestALinkThatCannotBeMeasuredIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(func(context.Context) (time.Duration, error) { return 0, errors.New("mute") })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.watch(ctx)
		synctest.Wait()
		if p.limit != maxInFlight || p.chunkLen() != chunkSize {
			t.Errorf("limit %d in stretches of %d", p.limit, p.chunkLen())
		}
	})
}

func TestWhatIsTooMuchWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(nil)
		p.limit = minInFlight
		if err := p.acquire(t.Context(), 10*minInFlight); err != nil { // alone, it may be more
			t.Fatal(err)
		}
		taken := false
		go func() {
			taken = p.acquire(t.Context(), 1) == nil
		}()
		synctest.Wait()
		if taken {
			t.Error("there was no room")
		}
		p.release(10 * minInFlight)
		synctest.Wait()
		if !taken {
			t.Error("room was made, and nobody told")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.acquire(ctx, minInFlight); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
