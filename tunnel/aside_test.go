package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// wifi is the link of a bench's computer to all servers.
type wifi struct {
	b       *bench
	servers []*sshtest.Server
	gone    atomic.Bool
	offline atomic.Bool
	looks   atomic.Int64 // how often a connection's address was looked for
}

// newWiFi makes it before the bench serves.
func newWiFi(b *bench, servers ...*sshtest.Server) *wifi {
	w := &wifi{b: b, servers: servers}
	dial := b.network.Dial
	b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
		if w.offline.Load() {
			return nil, errors.New("network is unreachable")
		}
		return dial(ctx, d, network, address)
	}
	b.network.HasAddress = func(netip.Addr) bool {
		w.looks.Add(1)
		return !w.gone.Load()
	}
	return w
}

// off loses the link, and returns what restores it with the same address.
func (w *wifi) off() (on func()) {
	set := func(off bool) {
		w.gone.Store(off)
		w.offline.Store(off)
		for _, s := range w.servers {
			s.Pause(off)
		}
		w.b.NetworkChanged()
		synctest.Wait()
	}
	set(true)
	return func() { set(false) }
}

// roam gives the computer another address: the old connections hear nothing more.
func (w *wifi) roam() {
	w.gone.Store(true)
	for _, s := range w.servers {
		s.Stall()
	}
	w.b.NetworkChanged()
	synctest.Wait()
}

// betweenKeepalives is connected at a time when no keepalive is under way.
func betweenKeepalives(t *testing.T, b *bench) (*Host, net.Conn) {
	t.Helper()
	h, c := connected(t, b)
	time.Sleep(7 * time.Second)
	return h, c
}

// ended waits for the end of a channel, and returns how long that took.
func ended(t *testing.T, c io.Reader, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		end <- err
	}()
	select {
	case <-end:
	case <-time.After(limit):
		t.Fatalf("the channel is open after %v", limit)
	}
	return time.Since(began)
}

func TestAside(t *testing.T) {
	t.Run("a lost Wi-Fi ends no connection", func(t *testing.T) {
		for _, off := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute, 3 * time.Hour} {
			t.Run(off.String(), simulated(func(t *testing.T) {
				b, s := keyed(t)
				w := newWiFi(b, s)
				writes := countWrites(b)
				h, c := betweenKeepalives(t, b)
				sent := writes.Load()
				on := w.off()
				if got := h.Status(); got.State == api.HostUp {
					t.Errorf("shown at once: %+v", got)
				}
				looks := w.looks.Load()
				time.Sleep(off)
				if n := writes.Load() - sent; n != 0 {
					t.Errorf("%d packets without an address", n)
				}
				if n := w.looks.Load() - looks; n > 200+2*int64(off/slowCheck) {
					t.Errorf("looked for its address %d times", n)
				}
				on()
				awaitHost(t, h, time.Second, func() bool { return h.Status().State == api.HostUp })
				sshtest.StillEchoes(t, c)
				sshtest.EchoThrough(t, h)
				time.Sleep(time.Hour)
				s.WantLogins(t, 1)
			}))
		}
	})
	t.Run("a login replaces a connection whose address is gone", simulated(func(t *testing.T) {
		b, s := keyed(t)
		w := newWiFi(b, s)
		acceptLate(5 * time.Second)(s.Config)
		h, c := betweenKeepalives(t, b)
		w.roam()
		took := ended(t, c, time.Minute)
		if took < 5*time.Second || h.Status().State != api.HostUp {
			t.Errorf("the old connection was closed after %v, before the login: %+v", took, h.Status())
		}
		sshtest.EchoThrough(t, h)
		s.WantLogins(t, 2)
	}))
	t.Run("after a roam, a login asks as soon as a user wants the host", simulated(func(t *testing.T) {
		b, s := keyed(t)
		w := newWiFi(b, s)
		h, _ := betweenKeepalives(t, b)
		time.Sleep(time.Hour) // nobody is there
		b.memory.Remember("login", func(k *api.Known) { k.Silent = false })
		w.roam()
		time.Sleep(10 * time.Second) // it may respond, and save a login
		if st := h.Status(); st.State != api.HostUp || st.NotRespondingSince.IsZero() {
			t.Errorf("after the roam: %+v", st)
		}
		w.gone.Store(false)
		began := time.Now()
		h.Up()
		awaitHost(t, h, time.Minute, func() bool { return s.Logins() == 2 })
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the login began after %v", took)
		}
	}))
	t.Run("a replaced connection keeps its channels", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, c := betweenKeepalives(t, b)
		resume := s.Stall()
		b.NetworkChanged()
		awaitHost(t, h, 5*time.Second, func() bool { return h.Status().State != api.HostUp })
		mustConnect(t, h)
		sshtest.EchoThrough(t, h) // over the new one
		time.Sleep(time.Minute)
		resume()
		sshtest.StillEchoes(t, c)
		time.Sleep(3 * time.Hour)
		sshtest.StillEchoes(t, c)
		sshtest.EchoThrough(t, h)
		if n := s.Connections(); n != 2 {
			t.Errorf("%d connections", n)
		}
		_ = c.Close()
		synctest.Wait()
		if n := s.Connections(); n != 1 || h.Status().State != api.HostUp {
			t.Errorf("%d connections after its last channel, %+v", n, h.Status())
		}
	}))
	t.Run("a replaced connection that stays silent is closed", func(t *testing.T) {
		for name, test := range map[string]struct {
			set   func(*sshconfig.Settings)
			least time.Duration
		}{
			"by our limit":        {func(*sshconfig.Settings) {}, 2 * time.Minute},
			"by the user's limit": {func(s *sshconfig.Settings) { s.ServerAliveInterval, s.ServerAliveCountMax = 10*time.Second, 4 }, 40 * time.Second},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, s := keyed(t, test.set)
				h, c := betweenKeepalives(t, b)
				defer s.Stall()()
				b.NetworkChanged()
				awaitHost(t, h, 5*time.Second, func() bool { return s.Logins() == 2 })
				mustConnect(t, h)
				if took := ended(t, c, time.Hour); took < test.least || took > test.least+time.Second {
					t.Errorf("closed %v after it was replaced", took)
				}
			}))
		}
	})
	t.Run("a shell outlives a stall", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := betweenKeepalives(t, b)
		shell, requests, err := h.OpenChannel(t.Context(), "session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(shell)
		go ssh.DiscardRequests(requests)
		if ok, err := shell.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"cat"})); !ok || err != nil {
			t.Fatal(ok, err)
		}
		sshtest.StillEchoes(t, shell)
		resume := s.Stall()
		say(shell, "x")
		time.Sleep(100 * time.Second)
		resume()
		if _, err := io.ReadFull(shell, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		sshtest.StillEchoes(t, shell)
	}))
	t.Run("what only a user can replace is never closed", simulated(func(t *testing.T) {
		b, s, h := byPassword(t)
		time.Sleep(10*time.Minute + 7*time.Second)
		c := sshtest.DialEcho(t, h)
		s.Pause(true)
		b.NetworkChanged()
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostNeedsLogin })
		time.Sleep(8 * time.Hour)
		s.Pause(false)
		awaitHost(t, h, time.Second, func() bool { return h.Status().State == api.HostUp })
		sshtest.StillEchoes(t, c)
		s.WantLogins(t, 1)
	}))
	t.Run("nobody is asked to log in after seconds without Wi-Fi", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, sshtest.AcceptPassword("right"))
		b := newBench(t, s, nil)
		b.person.answers = []string{"right"}
		w := newWiFi(b, s)
		h, c := betweenKeepalives(t, b)
		on := w.off()
		awaitHost(t, h, time.Second, func() bool { return !responds(h) })
		time.Sleep(40 * time.Second)
		on()
		awaitHost(t, h, time.Second, func() bool { return responds(h) })
		sshtest.StillEchoes(t, c)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, state := range b.states {
			if state == api.HostNeedsLogin {
				t.Error("a person was asked to log in")
			}
		}
	}))
	t.Run("hosts that share a connection lose and regain it together", simulated(func(t *testing.T) {
		e := newEditable(t, "one")
		w := newWiFi(e.bench, e.servers["one"])
		e.serve(t)
		var hosts []*Host
		for _, name := range []string{"work", "cluster"} {
			e.point(name, sshconfig.Settings{Hostname: "one"})
			hosts = append(hosts, e.Host(name))
			e.Host(name).Up()
			mustConnect(t, e.Host(name))
		}
		time.Sleep(10 * time.Minute)
		c := sshtest.DialEcho(t, hosts[1])
		on := w.off()
		for _, h := range hosts {
			if h.Status().State == api.HostUp {
				t.Errorf("%s is up", h.name)
			}
		}
		time.Sleep(10 * time.Second)
		on()
		for _, h := range hosts {
			awaitHost(t, h, time.Second, func() bool { return h.Status().State == api.HostUp })
		}
		sshtest.StillEchoes(t, c)
		e.servers["one"].WantLogins(t, 1)
	}))
	t.Run("a lost Wi-Fi ends nothing behind a jump host", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		w := newWiFi(b, servers["outer"])
		h := b.up(t, "inner")
		time.Sleep(10 * time.Minute)
		c := sshtest.DialEcho(t, h)
		on := w.off()
		time.Sleep(time.Minute)
		on()
		awaitHost(t, h, 5*time.Second, func() bool { return h.Status().State == api.HostUp })
		sshtest.StillEchoes(t, c)
		sshtest.EchoThrough(t, h)
		servers["inner"].WantLogins(t, 1)
	}))
	t.Run("new channels to a node do not wait for a replaced connection", simulated(func(t *testing.T) {
		b, servers := chain(t, nil, nil)
		outer := b.up(t, "outer")
		time.Sleep(10 * time.Minute)
		node := outer.Link().Hop([]string{"inner"})
		defer node.Close()
		c := sshtest.DialEcho(t, node)
		resume := servers["outer"].Stall()
		b.NetworkChanged()
		awaitHost(t, outer, 5*time.Second, func() bool { return outer.Status().State != api.HostUp })
		if _, err := node.Dial(t.Context(), "tcp", "echo:1"); !errors.Is(err, api.ErrDown) {
			t.Errorf("a dial before there is another connection: %v", err)
		}
		mustConnect(t, outer)
		sshtest.EchoThrough(t, node)
		resume()
		sshtest.StillEchoes(t, c)
		_ = c.Close()
		synctest.Wait()
		if n := servers["outer"].Connections(); n != 1 {
			t.Errorf("%d connections after the last channel of the old one", n)
		}
		sshtest.EchoThrough(t, node)
	}))
	t.Run("Down ends it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, c := betweenKeepalives(t, b)
		time.Sleep(7 * time.Second) // no keepalive is under way
		s.Pause(true)
		b.NetworkChanged()
		awaitHost(t, h, 5*time.Second, func() bool { return h.Status().State != api.HostUp })
		h.Down()
		h.Up()
		synctest.Wait() // the login before is given up
		s.Pause(false)
		ended(t, c, time.Second)
		mustConnect(t, h)
		s.WantLogins(t, 2)
	}))
	t.Run("a login whose address is gone is given up at once", simulated(func(t *testing.T) {
		b, s := keyed(t)
		w := newWiFi(b, s)
		acceptLate(20 * time.Second)(s.Config)
		h := b.want(t, "login")
		awaitHost(t, h, 5*time.Second, func() bool { return strings.HasPrefix(h.Status().Cause, "logging in") })
		w.roam()
		if st := h.Status(); strings.HasPrefix(st.Cause, "logging in") || b.memory.Known("login").Logins.Refusals != 0 {
			t.Errorf("after the address changed: %+v, %+v", st, b.memory.Known("login").Logins)
		}
		w.gone.Store(false) // the next login comes from the new address
		awaitHost(t, h, 2*time.Minute, func() bool { return h.Status().State == api.HostUp })
	}))
}

// acceptLate has a login with a key take some time.
func acceptLate(d time.Duration) sshtest.Login {
	return sshtest.EachKey(func(ssh.PublicKey) { time.Sleep(d) })
}
