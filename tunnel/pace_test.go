package tunnel

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
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
		"fast and far":       {rate: 125e6, rtt: 100 * time.Millisecond, window: 8 * channelWindow},
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

// slowWire delivers so many bytes a second; what came before waits in a queue. The host
// behind it is not near: what is written arrives later. A sleep in Write would hold the
// library's lock, and the time of synctest.
type slowWire struct {
	net.Conn
	rate   int
	out    chan lateBytes
	closed chan struct{}
}

type lateBytes struct {
	bytes []byte
	at    time.Time
}

func newSlowWire(c net.Conn, rate int) *slowWire {
	w := &slowWire{Conn: c, rate: rate, out: make(chan lateBytes, 1000), closed: make(chan struct{})}
	go w.deliver()
	return w
}

func (w *slowWire) deliver() {
	for {
		var late lateBytes
		select {
		case late = <-w.out:
		case <-w.closed:
			return
		}
		select {
		case <-time.After(time.Until(late.at)):
			_, _ = w.Conn.Write(late.bytes)
		case <-w.closed:
			return
		}
	}
}

func (w *slowWire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p[:min(len(p), 4<<10)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(w.rate))
	return n, err
}

func (w *slowWire) Write(p []byte) (int, error) {
	select {
	case w.out <- lateBytes{bytes.Clone(p), time.Now().Add(2 * nearHost)}:
		return len(p), nil
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

func (w *slowWire) Close() error {
	close(w.closed) // the wire closes it once
	return w.Conn.Close()
}

// overSlowHost runs test with a host that sends so many bytes a second at most, and
// counts what is written to it.
func overSlowHost(t *testing.T, rate int, test func(t *testing.T, s *sshServer, h *Host, writes *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		b, s := keyed(t)
		b.dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			c, err := s.dial(ctx, d, network, address)
			return newSlowWire(c, rate), err
		}
		writes := countWrites(b)
		b.serve(t)
		h := b.Host("login")
		h.Up()
		mustConnect(t, h)
		test(t, s, h, writes)
	})
}

// download reads from the host without end, and counts the bytes.
func download(t *testing.T, h *Host) (ch ssh.Channel, got *atomic.Int64) {
	t.Helper()
	ch, requests, err := h.OpenChannel(t.Context(), "session", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close() })
	go ssh.DiscardRequests(requests)
	if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"flood"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	got = new(atomic.Int64)
	go func() {
		for buf := make([]byte, 256<<10); ; {
			n, err := ch.Read(buf)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return ch, got
}

func TestAPageBesideADownloadDoesNotWaitBehindIt(t *testing.T) {
	const rate = 2e6 // a channel's window would be a queue of one second
	overSlowHost(t, rate, func(t *testing.T, _ *sshServer, h *Host, _ *atomic.Int64) {
		_, got := download(t, h)
		time.Sleep(8 * time.Second) // the first window's queue is gone
		page, err := h.Dial(t.Context(), "tcp", "echo:1")
		if err != nil {
			t.Fatal(err)
		}
		defer closing(page)
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

func TestTheMeasuringEndsWithTheTransfer(t *testing.T) {
	overSlowHost(t, 2e6, func(t *testing.T, _ *sshServer, h *Host, writes *atomic.Int64) {
		ch, _ := download(t, h)
		time.Sleep(8 * time.Second)
		_ = ch.Close()
		time.Sleep(paceIdle + 5*time.Second) // what has come until then is read, too
		before := writes.Load()
		time.Sleep(15 * time.Second) // before the next keepalive
		if sent := writes.Load() - before; sent > 0 {
			t.Errorf("%d packets after the transfer", sent)
		}
	})
}

func TestALossDuringADownloadIsShownWithinSeconds(t *testing.T) {
	overSlowHost(t, 2e6, func(t *testing.T, s *sshServer, h *Host, _ *atomic.Int64) {
		download(t, h)
		time.Sleep(8 * time.Second)
		if !responds(h) {
			t.Fatal("shown as not responding although data comes")
		}
		s.pause(true)
		awaitHost(t, h, 15*time.Second, func() bool { return !responds(h) })
	})
}

func TestAStreamOfSmallMessagesIsNoBulkTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured := false
		f := flow{pacer: &pacer{spawn: func(func()) bool { measured = true; return true }}}
		for range 24 * 3600 * 2 { // a day of a page's messages
			f.add(2 << 10)
			time.Sleep(time.Second / 2)
		}
		if measured {
			t.Error("the link is measured")
		}
		for range 10 {
			f.add(100 << 10)
			time.Sleep(100 * time.Millisecond)
		}
		if !measured {
			t.Error("a download behind them is not found")
		}
	})
}

func TestATransferThatWaitsForItsTurnEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		p := &pacer{done: done, queue: queueControl{rate: 1}, next: time.Now().Add(time.Hour)}
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(done) })
		p.wait(1)
		if took := time.Since(start); took != time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// lateWire delivers everything some time later.
type lateWire struct {
	net.Conn
	late time.Duration
}

func (w lateWire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	time.Sleep(w.late)
	return n, err
}

func TestMeasurementsOfBothDirectionsDoNotCountEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 100 * time.Millisecond
		b, s := keyed(t)
		b.dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			c, err := s.dial(ctx, d, network, address)
			return lateWire{c, rtt}, err
		}
		b.serve(t)
		h := b.Host("login")
		h.Up()
		mustConnect(t, h)
		time.Sleep(time.Second)
		c, err := h.current()
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for _, p := range []*pacer{c.in, c.out} {
			both.Go(func() {
				if took, err := p.ping(); err != nil || took > rtt {
					t.Errorf("%v, %v", took, err)
				}
			})
		}
		both.Wait()
	})
}
