package tunnel

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/dev/sshtest"

	"golang.org/x/crypto/ssh"
)

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
	case w.out <- lateBytes{bytes.Clone(p), time.Now().Add(2 * time.Millisecond)}:
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
func overSlowHost(t *testing.T, rate int, test func(t *testing.T, s *sshtest.Server, h *Host, writes *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		b, s := keyed(t)
		b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
			c, err := s.Dial(ctx, d, network, address)
			return newSlowWire(c, rate), err
		}
		writes := countWrites(b)
		h := b.up(t, "login")
		test(t, s, h, writes)
	})
}

// download reads from the host without end, and counts the bytes.
func download(t *testing.T, h *Host) (ch ssh.Channel, got *atomic.Int64) {
	t.Helper()
	got = flood(t, func(ctx context.Context, kind string, payload []byte) (_ ssh.Channel, requests <-chan *ssh.Request, err error) {
		ch, requests, err = h.OpenChannel(ctx, kind, payload)
		return ch, requests, err
	})
	return ch, got
}

// flood reads without end from a session that is opened so, and counts the bytes.
func flood(t *testing.T, open func(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)) *atomic.Int64 {
	t.Helper()
	ch, requests, err := open(t.Context(), "session", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close() })
	go ssh.DiscardRequests(requests)
	if ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"flood"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	got := new(atomic.Int64)
	go func() {
		for buf := make([]byte, 256<<10); ; {
			n, err := ch.Read(buf)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return got
}

func TestPace(t *testing.T) {
	t.Run("a page beside a download does not wait behind it", func(t *testing.T) {
		const rate = 2e6 // a channel's window would be a queue of one second
		overSlowHost(t, rate, func(t *testing.T, _ *sshtest.Server, h *Host, _ *atomic.Int64) {
			_, got := download(t, h)
			pageBesideDownload(t, h.Dial, got, rate)
		})
	})
	t.Run("the measuring ends with the transfer", func(t *testing.T) {
		overSlowHost(t, 2e6, func(t *testing.T, _ *sshtest.Server, h *Host, writes *atomic.Int64) {
			ch, _ := download(t, h)
			time.Sleep(8 * time.Second)
			_ = ch.Close()
			time.Sleep(7 * time.Second) // what has come until then is read, too
			before := writes.Load()
			time.Sleep(15 * time.Second) // before the next keepalive
			if sent := writes.Load() - before; sent > 0 {
				t.Errorf("%d packets after the transfer", sent)
			}
		})
	})
	t.Run("a loss during a download is shown within seconds", func(t *testing.T) {
		overSlowHost(t, 2e6, func(t *testing.T, s *sshtest.Server, h *Host, _ *atomic.Int64) {
			download(t, h)
			time.Sleep(8 * time.Second)
			if !responds(h) {
				t.Fatal("shown as not responding although data comes")
			}
			s.Pause(true)
			awaitHost(t, h, 15*time.Second, func() bool { return !responds(h) })
		})
	})
	t.Run("a page on a node does not wait behind a download", func(t *testing.T) {
		const rate = 2e6
		synctest.Test(t, func(t *testing.T) {
			b, _ := chain(t, map[string][]string{"inner": {"outer"}}, nil)
			direct := b.network.Dial
			b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
				c, err := direct(ctx, d, network, address)
				if err != nil {
					return nil, err
				}
				return newSlowWire(c, rate), nil
			}
			outer := b.up(t, "outer")
			hop := outer.Link().Hop([]string{"inner"})
			defer hop.Close()
			got := flood(t, hop.OpenChannel)
			pageBesideDownload(t, hop.Dial, got, rate)
		})
	})
}

// pageBesideDownload visits a page while a download goes on.
func pageBesideDownload(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error), got *atomic.Int64, rate float64) {
	t.Helper()
	time.Sleep(8 * time.Second) // the first window's queue is gone
	page, err := dial(t.Context(), "tcp", "echo:1")
	if err != nil {
		t.Fatal(err)
	}
	defer closing(page)
	before, start, late := got.Load(), time.Now(), 0
	const visits = 100
	for range visits {
		asked := time.Now()
		say(page, "page")
		if _, err := io.ReadFull(page, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		if time.Since(asked) > 100*time.Millisecond {
			late++
		}
		time.Sleep(50 * time.Millisecond)
	}
	if late*20 > visits {
		t.Errorf("%d of %d visits took more than 100 ms", late, visits)
	}
	if speed := float64(got.Load()-before) / time.Since(start).Seconds(); speed < 0.8*rate {
		t.Errorf("the download had %.0f bytes a second, of %.0f", speed, rate)
	}
}
