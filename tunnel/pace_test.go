package tunnel

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// slowLink is a link of a rate and a round trip, with a queue without end before it, and
// the window of one channel.
type slowLink struct {
	rate   float64 // bytes a second
	rtt    time.Duration
	window float64

	moved    float64              // bytes so far
	inFlight float64              // what was granted and has not arrived
	unread   float64              // what has arrived and is not read
	late     func() time.Duration // what other things add to a round trip; nil: nothing
}

// roundTrip is what a ping takes now.
func (l *slowLink) roundTrip() time.Duration {
	queue := max(0, l.inFlight-l.rate*l.rtt.Seconds())
	d := l.rtt + time.Duration(queue/l.rate*float64(time.Second))
	if l.late != nil {
		d += l.late()
	}
	return d
}

// pass lets time pass in which a transfer reads at a limit, 0 for none.
func (l *slowLink) pass(d time.Duration, limit float64) {
	const step = time.Millisecond
	for ; d > 0; d -= step {
		full := l.rate * l.rtt.Seconds() // with less in flight the link is not full
		arrived := min(l.inFlight, l.rate*step.Seconds()*min(1, l.inFlight/full))
		l.inFlight -= arrived
		l.unread += arrived
		l.moved += arrived
		read := l.unread
		if limit > 0 {
			read = min(read, limit*step.Seconds())
		}
		l.unread -= read
		l.inFlight = l.window - l.unread
	}
}

// run measures a link for some time, and returns how much it moved and the round trips,
// without the first seconds.
func (l *slowLink) run(q *queueControl, total, skip time.Duration) (moved float64, trips []time.Duration) {
	start := time.Now()
	before := 0.0
	for at := time.Duration(0); at < total; {
		rtt := l.roundTrip()
		l.pass(rtt, q.rate)
		at += rtt
		q.measured(rtt, int64(l.moved), l.unread > 0, start.Add(at))
		if rest := measureEvery - rtt; rest > 0 {
			l.pass(rest, q.rate)
			at += rest
		}
		if at <= skip {
			before = l.moved
			continue
		}
		trips = append(trips, rtt)
	}
	return l.moved - before, trips
}

// channelWindow is x/crypto's and OpenSSH's.
const channelWindow = 2 << 20

func TestADownloadFillsTheLinkButNotItsQueue(t *testing.T) {
	for name, l := range map[string]*slowLink{
		"at home":            {rate: 12.5e6, rtt: 20 * time.Millisecond, window: channelWindow},
		"at home, six":       {rate: 12.5e6, rtt: 20 * time.Millisecond, window: 6 * channelWindow},
		"far":                {rate: 12.5e6, rtt: 100 * time.Millisecond, window: 6 * channelWindow},
		"narrow":             {rate: 1.25e6, rtt: 40 * time.Millisecond, window: channelWindow},
		"less than the link": {rate: 60e6, rtt: 100 * time.Millisecond, window: channelWindow},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queueControl{base: l.rtt}
			const total, skip = 30 * time.Second, 3 * time.Second
			moved, trips := l.run(q, total, skip)
			late := 0
			limit := l.rtt + 2*max(l.rtt/2, minQueue)
			for _, rtt := range trips {
				if rtt > limit {
					late++
				}
			}
			if late*20 > len(trips) {
				t.Errorf("%d of %d round trips took more than %v", late, len(trips), limit)
			}
			could := min(l.rate, l.window/l.rtt.Seconds()) * (total - skip).Seconds()
			if moved < 0.9*could {
				t.Errorf("%.0f %% of the link was used", 100*moved/could)
			}
		})
	}
}

func TestALinkThatIsLateForOtherReasonsIsUsedAllTheSame(t *testing.T) {
	for name, late := range map[string]func() time.Duration{
		"round trips vary":     func() time.Duration { return time.Duration(rand.Int64N(int64(40 * time.Millisecond))) },
		"a few are very late":  func() time.Duration { return time.Duration(rand.IntN(5)/4) * 300 * time.Millisecond },
		"the queue of others":  func() time.Duration { return 60 * time.Millisecond },
		"others and they vary": func() time.Duration { return time.Duration(30+rand.IntN(60)) * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			l := &slowLink{rate: 12.5e6, rtt: 20 * time.Millisecond, window: channelWindow, late: late}
			q := &queueControl{base: l.rtt}
			const total, skip = 60 * time.Second, 10 * time.Second
			moved, _ := l.run(q, total, skip)
			if could := l.rate * (total - skip).Seconds(); moved < 0.8*could {
				t.Errorf("%.0f %% of the link was used", 100*moved/could)
			}
		})
	}
}

func TestALinkThatBecomesFasterIsUsed(t *testing.T) {
	l := &slowLink{rate: 5e6, rtt: 20 * time.Millisecond, window: channelWindow}
	q := &queueControl{base: l.rtt}
	l.run(q, 10*time.Second, 0)
	l.rate *= 4
	const total, skip = 10 * time.Second, 3 * time.Second
	moved, _ := l.run(q, total, skip)
	if could := l.rate * (total - skip).Seconds(); moved < 0.9*could {
		t.Errorf("%.0f %% of the link was used", 100*moved/could)
	}
}

func TestATransferToANearOrFastHostIsNotLimited(t *testing.T) {
	for name, l := range map[string]*slowLink{
		"near": {rate: 60e6, rtt: time.Millisecond, window: channelWindow},
		"fast": {rate: 500e6, rtt: 10 * time.Millisecond, window: 16 * channelWindow},
	} {
		q := &queueControl{base: l.rtt}
		l.run(q, 5*time.Second, 0)
		if q.rate != 0 {
			t.Errorf("%s: limited to %.0f bytes a second", name, q.rate)
		}
	}
}

// slowWire delivers so many bytes a second; what came before waits in a queue. Without
// one, a round trip takes that of a host that is not near.
type slowWire struct {
	net.Conn
	rate int
}

func (w slowWire) Read(p []byte) (int, error) {
	const piece = 4 << 10
	n, err := w.Conn.Read(p[:min(len(p), piece)])
	d := time.Duration(n) * time.Second / time.Duration(w.rate)
	if n < piece { // nothing waits
		d += 2 * nearHost
	}
	time.Sleep(d)
	return n, err
}

func TestAPageBesideADownloadDoesNotWaitBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 2e6 // a channel's window would be a queue of one second
		b, s := keyed(t)
		b.dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			c, err := s.dial(ctx, d, network, address)
			return slowWire{c, rate}, err
		}
		b.serve(t)
		h := b.Host("login")
		h.Up()
		mustConnect(t, h)
		page, err := h.Dial(t.Context(), "tcp", "echo:1")
		if err != nil {
			t.Fatal(err)
		}
		defer closing(page)
		ch, requests, err := h.OpenChannel(t.Context(), "session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ch.Close() }()
		go ssh.DiscardRequests(requests)
		if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"flood"})); !ok || err != nil {
			t.Fatal(ok, err)
		}
		var got atomic.Int64
		go func() {
			for buf := make([]byte, 256<<10); ; {
				n, err := ch.Read(buf)
				got.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		time.Sleep(8 * time.Second) // the first window's queue is gone
		before, start := got.Load(), time.Now()
		for range 40 {
			asked := time.Now()
			say(page, "page")
			if _, err := io.ReadFull(page, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took > 100*time.Millisecond {
				t.Errorf("the page took %v", took)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if speed := float64(got.Load()-before) / time.Since(start).Seconds(); speed < 0.8*rate {
			t.Errorf("the download had %.0f bytes a second, of %.0f", speed, float64(rate))
		}
	})
}
