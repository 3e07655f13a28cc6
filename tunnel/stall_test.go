package tunnel

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// connected is a host with a login that needs nobody, connected for a while, and a
// client's connection through it.
func connected(t *testing.T, b *bench) (*Host, net.Conn) {
	t.Helper()
	h := b.up(t, "login")
	time.Sleep(10 * time.Minute)
	return h, sshtest.DialEcho(t, h)
}

// silence has a server say nothing to a client, until its host is shown as not responding.
func silence(t *testing.T, s *sshtest.Server, h *Host, client io.Writer) {
	t.Helper()
	s.Pause(true)
	say(client, "anybody?")
	awaitHost(t, h, 15*time.Second, func() bool { return !responds(h) })
}

func responds(h *Host) bool { return h.Status().NotRespondingSince.IsZero() }

// awaitHost waits until a host is as wanted and returns how long that took.
func awaitHost(t *testing.T, h *Host, limit time.Duration, wanted func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	late := time.After(limit)
	for {
		changed := h.Changed()
		if wanted() {
			return time.Since(began)
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("not within %v: %+v", limit, h.Status())
		}
	}
}

func TestStall(t *testing.T) {
	t.Run("a host that does not answer a client is shown within seconds", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, c := connected(t, b)
		up := h.Status().Since
		s.Pause(true)
		say(c, "anybody?")
		took := awaitHost(t, h, 15*time.Second, func() bool { return !responds(h) })
		got := h.Status()
		if got.State != api.HostUp || got.Cause != "login is not responding since "+got.NotRespondingSince.Format(time.TimeOnly) {
			t.Errorf("after %v: %+v", took, got)
		}
		s.Pause(false)
		awaitHost(t, h, time.Second, func() bool { return responds(h) })
		if got := h.Status(); got.Cause != "" || !got.Since.Equal(up) {
			t.Errorf("afterwards %+v", got)
		}
	}))
	t.Run("a host that does not answer a client's own channel is shown too", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		ch, requests, err := h.OpenChannel(t.Context(), "direct-tcpip", ssh.Marshal(struct {
			Host     string
			Port     uint32
			From     string
			FromPort uint32
		}{Host: "echo", Port: 1}))
		if err != nil {
			t.Fatal(err)
		}
		defer closing(ch)
		go ssh.DiscardRequests(requests)
		silence(t, s, h, ch)
		s.Pause(false)
	}))
	t.Run("a write after the end waits for nothing", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		h, c := connected(t, b)
		ch, requests, err := h.OpenChannel(t.Context(), "session", nil)
		if err != nil {
			t.Fatal(err)
		}
		go ssh.DiscardRequests(requests)
		for _, x := range []io.WriteCloser{c, ch} {
			_ = x.Close()
			if _, err := io.WriteString(x, "late"); err == nil {
				t.Error("written after the end")
			}
		}
		if live, err := h.current(); err != nil || live.clients.waiting.Load() != 0 {
			t.Errorf("%d clients wait, %v", live.clients.waiting.Load(), err)
		}
	}))
	t.Run("clients that give up soon show it too", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		s.Pause(true)
		began := time.Now()
		for responds(h) && time.Since(began) < 15*time.Second {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = h.Dial(ctx, "tcp", "echo:1")
			cancel()
			time.Sleep(400 * time.Millisecond)
		}
		if responds(h) {
			t.Error("not shown within 15 seconds")
		}
	}))
	t.Run("a silent login replaces the connection", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, c := connected(t, b)
		defer s.Stall()()
		say(c, "anybody?")
		awaitHost(t, h, 15*time.Second, func() bool { return !responds(h) })
		if kept := awaitHost(t, h, 25*time.Second, func() bool { return h.Status().State != api.HostUp }); kept < b.o.Limits.ReplaceUnanswered-time.Second {
			t.Errorf("it was replaced after %v", kept)
		}
		mustConnect(t, h)
		sshtest.EchoThrough(t, h)
		s.WantLogins(t, 2)
	}))
	t.Run("the connection is kept while no login is due", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		s.Drop()
		synctest.Wait() // it may be up again at once
		mustConnect(t, h)
		up := h.Status().Since
		c := sshtest.DialEcho(t, h)
		silence(t, s, h, c)
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State != api.HostUp })
		if lasted := time.Since(up); lasted < time.Minute-time.Second {
			t.Errorf("closed %v after the last login", lasted)
		}
	}))
	t.Run("the connection is kept if only a user can replace it", simulated(func(t *testing.T) {
		_, s, h := byPassword(t)
		time.Sleep(10 * time.Minute)
		up := h.Status().Since
		c := sshtest.DialEcho(t, h)
		silence(t, s, h, c)
		if h.Status().Hint == "" {
			t.Error("nothing says that the connection is kept")
		}
		time.Sleep(75 * time.Second)
		s.Pause(false)
		awaitHost(t, h, time.Second, func() bool { return responds(h) })
		if got := h.Status(); got.State != api.HostUp || !got.Since.Equal(up) {
			t.Errorf("after a stall that TCP survives: %+v", got)
		}
		s.Pause(true)
		took := awaitHost(t, h, 3*time.Minute, func() bool { return h.Status().State != api.HostUp })
		if limit := 2 * time.Minute; took < limit-time.Second || took > limit+time.Second {
			t.Errorf("given up after %v", took)
		}
	}))
	t.Run("the connection is kept until the site permits a login", simulated(func(t *testing.T) {
		b, s := keyed(t, func(x *sshconfig.Settings) { x.LoginSpacing = 20 * time.Minute })
		h, c := connected(t, b)
		silence(t, s, h, c)
		time.Sleep(75 * time.Second)
		s.Pause(false)
		awaitHost(t, h, time.Second, func() bool { return responds(h) })
		if got := h.Status(); got.State != api.HostUp {
			t.Errorf("closed before a login was due: %+v", got)
		}
	}))
	t.Run("a jump host is kept for the host behind it that needs the user", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		servers["inner"].Config.PublicKeyCallback = nil
		sshtest.AcceptPassword("right")(servers["inner"].Config)
		b.person.answers = []string{"right"}
		b.serve(t)
		outer, inner := b.Host("outer"), b.Host("inner")
		mustUp(t, inner)
		time.Sleep(10 * time.Minute)
		up := inner.Status().Since
		c := sshtest.DialEcho(t, inner)
		silence(t, servers["outer"], outer, c)
		time.Sleep(75 * time.Second)
		servers["outer"].Pause(false)
		awaitHost(t, inner, time.Second, func() bool { return responds(inner) })
		if got := inner.Status(); got.State != api.HostUp || !got.Since.Equal(up) {
			t.Errorf("after a stall of the jump host: %+v", got)
		}
	}))
	t.Run("an idle host is shown within 45 seconds", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		time.Sleep(time.Hour + 7*time.Second)
		s.Pause(true)
		awaitHost(t, h, 45*time.Second, func() bool { return !responds(h) })
	}))
	t.Run("one of three seconds is not shown", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, c := connected(t, b)
		for range 20 {
			s.Pause(true)
			say(c, "anybody?")
			time.Sleep(3 * time.Second)
			if !responds(h) {
				t.Fatal("shown")
			}
			s.Pause(false)
			time.Sleep(time.Second)
		}
	}))
	t.Run("an idle connection sends a keepalive every half minute and nothing else", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		writes := countWrites(b)
		_, c := connected(t, b) // an open connection of a client is idle, too
		say(c, "x")
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		before := writes.Load()
		time.Sleep(time.Hour)
		if sent := writes.Load() - before; sent < 119 || sent > 121 {
			t.Errorf("%d packets in an hour", sent)
		}
	}))
	t.Run("a client that waits for long costs a few keepalives and shows nothing", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		writes := countWrites(b)
		h, _ := connected(t, b)
		// The server there is not reached for two minutes, as a page that computes.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := writes.Load()
		go func() {
			if c, err := h.Dial(ctx, "tcp", "dropped:1"); err == nil {
				_ = c.Close()
			}
		}()
		for range 60 {
			time.Sleep(time.Second)
			if !responds(h) {
				t.Fatal("shown as not responding")
			}
		}
		if sent := writes.Load() - before; sent > 20 {
			t.Errorf("%d packets in a minute", sent)
		}
	}))
}

// countingConn counts what is written to a connection.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// countWrites counts what a bench sends from now on.
func countWrites(b *bench) *atomic.Int64 {
	writes, dial := new(atomic.Int64), b.network.Dial
	b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
		c, err := dial(ctx, d, network, address)
		if err != nil {
			return nil, err
		}
		return countingConn{c, writes}, nil
	}
	return writes
}
