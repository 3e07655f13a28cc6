package tunnel

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// day lets a day of a laptop pass: it sleeps and wakes, roams, and the connection
// drops now and then; the server is now gone, now back.
func day(b *bench, s *sshtest.Server) {
	for hour := range 24 {
		switch hour % 4 {
		case 0:
			s.Drop()
		case 1: // the lid closes: nothing moves, then the network is another one
			s.Pause(true)
			time.Sleep(20 * time.Minute)
			s.Pause(false)
			s.Drop()
			b.NetworkChanged()
		case 2: // the VPN is off for a while
			s.Set(func(s *sshtest.Server) { s.Refuse = errors.New("no route to host") })
			s.Drop()
			time.Sleep(15 * time.Minute)
			s.Set(func(s *sshtest.Server) { s.Refuse = nil })
			b.NetworkChanged()
		case 3: // a Wi-Fi that comes and goes
			for range 60 {
				b.NetworkChanged()
				time.Sleep(10 * time.Second)
			}
		}
		time.Sleep(30 * time.Minute)
	}
}

func TestRetry(t *testing.T) {
	t.Run("a day asks for one login at most where the user is needed", func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		for name, test := range map[string]struct {
			server sshtest.Login
			answer []string
		}{
			"a password":                   {sshtest.AcceptPassword("right"), []string{"right"}},
			"a key and a code":             {twoStep(public, "123456"), []string{"1", "123456"}},
			"a push without a prompt":      {pushing("", 0), nil},
			"a wrong password, thrice":     {sshtest.AcceptPassword("right"), []string{"a", "b", "c"}},
			"a key and nobody for a code":  {twoStep(public, "123456"), nil},
			"a key that is not registered": {sshtest.AcceptKey(), nil},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				s := sshtest.NewServer(t, test.server)
				b, h, _ := logIn(t, s, withKeys(path), test.answer...)
				day(b, s)
				logins := s.Logins()
				t.Logf("%d login attempt(s) in a day; now %s: %s", logins, h.Status().State, h.Status().Cause)
				if logins != 1 {
					t.Errorf("%d login attempts in a day", logins)
				}
			}))
		}
	})
	t.Run("a name that does not exist is not tried for ever", func(t *testing.T) {
		for name, silent := range map[string]bool{"never logged in to": false, "logged in to by key": true} {
			t.Run(name, simulated(func(t *testing.T) {
				b := newBenchOf(t, nil, nil)
				dials, dial := 0, b.network.Dial
				b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
					dials++
					return dial(ctx, d, network, address)
				}
				b.memory.Remember("tpyo", func(k *api.Known) { k.Silent = silent })
				h := b.begin(t, "tpyo")
				time.Sleep(24 * time.Hour)
				want, most := api.HostBlocked, 10
				if silent {
					want, most = api.HostWaiting, 130
				}
				s := h.Status()
				if s.State != want || !strings.HasPrefix(s.Cause, `no host named "tpyo" was found`) || !strings.Contains(s.Hint, "~/.ssh/config") || dials > most {
					t.Errorf("after a day and %d dials: %s: %s (%s)", dials, s.State, s.Cause, s.Hint)
				}
			}))
		}
	})
	t.Run("a day of silent logins keeps them a minute apart", simulated(func(t *testing.T) {
		b, s := keyed(t)
		var at []time.Time
		s.Config.AuthLogCallback = func(_ ssh.ConnMetadata, method string, _ error) {
			if method == "none" {
				at = append(at, time.Now())
			}
		}
		h := b.up(t, "login")
		haveWaiter(t, h, true) // changes nothing about that
		day(b, s)
		synctest.Wait()
		if h.Status().State != api.HostUp {
			t.Errorf("after a day: %+v", h.Status())
		}
		t.Logf("%d logins in a day", len(at))
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < time.Minute {
				t.Errorf("two logins %v apart", gap)
			}
		}
	}))
	for name, flaps := range map[string]bool{"": false, ", also while the network flaps": true} {
		t.Run("a server that drops every login sees few of them"+name, simulated(func(t *testing.T) {
			b, s := keyed(t)
			h := b.up(t, "login")
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			go func() {
				for flaps && ctx.Err() == nil {
					time.Sleep(50 * time.Second)
					b.NetworkChanged()
				}
			}()
			for h.Await(ctx) == nil {
				time.Sleep(time.Second)
				s.Drop()
				synctest.Wait()
			}
			time.Sleep(24 * time.Hour)
			if got := h.Status(); s.Logins() != 3 || got.State != api.HostBlocked || !strings.Contains(got.Cause, "ends each connection soon after the login") {
				t.Errorf("%d logins in a day, then %s: %s", s.Logins(), got.State, got.Cause)
			}
			h.Up()
			if err := h.Await(t.Context()); err != nil || s.Logins() != 4 {
				t.Errorf("the user's own try: %v, %d logins", err, s.Logins())
			}
		}))
	}
	t.Run("a port refused after a refusal is a suspected ban", simulated(func(t *testing.T) {
		b, s := keyed(t)
		accept := s.Config.PublicKeyCallback
		s.Config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
		h := b.want(t, "login")
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostWaiting })
		s.Set(func(s *sshtest.Server) { s.Refuse = syscall.ECONNREFUSED })
		s.Config.PublicKeyCallback = accept
		err := h.Await(t.Context())
		if !strings.Contains(err.Error(), "banned") || h.Status().State != api.HostBlocked {
			t.Fatalf("Await: %v, %+v", err, h.Status())
		}
		dials := s.Dials()
		b.NetworkChanged()
		time.Sleep(59 * time.Minute)
		if after := s.Dials(); after != dials {
			t.Errorf("%d dials during a suspected ban", after-dials)
		}

		b.person.answers = []string{"no"}
		h.Up()
		if err := h.Await(t.Context()); codeOf(err) != api.CodeNeedsPerson {
			t.Errorf("a person who chose to wait: %v", err)
		}
		s.Set(func(s *sshtest.Server) { s.Refuse = nil })
		b.person.answers = []string{"yes"}
		mustUp(t, h)
		if q := b.person.questions(); len(q) != 2 || q[0].Kind != api.PromptConfirm {
			t.Errorf("asked %+v", q)
		}
	}))
	t.Run("a network change finds a dead link in seconds", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		time.Sleep(time.Hour)
		b.NetworkChanged() // a live link survives it
		time.Sleep(10 * time.Second)
		s.Pause(true)
		b.NetworkChanged()
		time.Sleep(3*time.Second + time.Millisecond)
		if h.Status().State == api.HostUp {
			t.Error("a dead link is still up 3 s after the network changed")
		}
		s.Pause(false)
		mustConnect(t, h)
	}))
	t.Run("a link that needs the user is given time after a wake", simulated(func(t *testing.T) {
		b, s, h := byPassword(t)
		time.Sleep(time.Hour)
		s.Pause(true)
		b.NetworkChanged()
		time.Sleep(40 * time.Second)
		s.Pause(false)
		time.Sleep(time.Minute)
		if h.Status().State != api.HostUp {
			t.Errorf("%+v", h.Status())
		}
	}))
	t.Run("while somebody waits, a return is found within seconds", func(t *testing.T) {
		for _, gone := range []time.Duration{20 * time.Second, time.Minute, 95 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				b, s := keyed(t)
				h, _ := connected(t, b)
				_, restore := unreachable(b)
				s.Drop()
				haveWaiter(t, h, false)
				time.Sleep(gone)
				restore()
				if took := awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostUp }); took > 11*time.Second {
					t.Errorf("%v after %v", took, gone)
				}
			})
		}
	})
	t.Run("an answered dial is used however late its banner", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		s.Pause(true) // accepts, and says nothing
		s.Drop()
		haveWaiter(t, h, false)
		b.NetworkChanged() // the probe finds the loss
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State != api.HostUp })
		before := s.Dials()
		time.Sleep(4 * time.Minute)
		s.Pause(false)
		awaitHost(t, h, 2*time.Second, func() bool { return h.Status().State == api.HostUp })
		if after := s.Dials(); after > before+1 {
			t.Errorf("%d connections for one login", after-before)
		}
	}))
	t.Run("a late banner is not awaited for long after an event", func(t *testing.T) {
		for name, act := range map[string]func(b *bench, h *Host){
			"a person acts":       func(_ *bench, h *Host) { h.Up() },
			"the network changes": func(b *bench, _ *Host) { b.NetworkChanged() },
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, s := keyed(t)
				h, _ := connected(t, b)
				s.Set(func(s *sshtest.Server) { s.Silent = true }) // as a captive portal
				haveWaiter(t, h, false)
				s.Drop()
				awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostConnecting })
				time.Sleep(time.Minute)
				s.Set(func(s *sshtest.Server) { s.Silent = false })
				act(b, h)
				awaitHost(t, h, 20*time.Second, func() bool { return h.Status().State == api.HostUp })
			}))
		}
	})
	t.Run("a server that hangs up at once is not dialled more often", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		s.Set(func(s *sshtest.Server) { s.Greeting = "Exceeded MaxStartups\r\n" })
		s.Drop()
		before := s.Dials()
		haveWaiter(t, h, false)
		time.Sleep(time.Hour)
		if after := s.Dials(); after-before > 12 {
			t.Errorf("%d connections in an hour", after-before)
		}
	}))
	t.Run("nothing is dialled more often through a jump host", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		h := b.up(t, "inner")
		time.Sleep(10 * time.Minute)
		inner := servers["inner"]
		inner.Set(func(s *sshtest.Server) { s.Refuse = errors.New("no route to host") })
		inner.Drop()
		before := inner.Dials()
		haveWaiter(t, h, false)
		time.Sleep(time.Hour)
		if after := inner.Dials(); after-before > 12 {
			t.Errorf("%d dials in an hour", after-before)
		}
	}))
	t.Run("somebody who waits changes nothing about a suspected ban", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Logins = api.Logins{Refused: time.Now().Add(-time.Minute)} })
		s.Set(func(s *sshtest.Server) { s.Greeting = "Not allowed at this time\r\n" })
		h := b.want(t, "login")
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostBlocked })
		before := s.Dials()
		haveWaiter(t, h, false)
		time.Sleep(59 * time.Minute)
		if after := s.Dials(); after != before {
			t.Errorf("%d dials during a suspected ban", after-before)
		}
	}))
	t.Run("a penalty is waited out", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h, _ := connected(t, b)
		s.Set(func(s *sshtest.Server) { s.Greeting = "Not allowed at this time\r\n" })
		s.Drop()
		start, before := time.Now(), s.Dials()
		var at []time.Duration
		for time.Since(start) < 35*time.Minute {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := s.Dials(); n > before {
				before = n
				at = append(at, time.Since(start).Round(10*time.Second))
			}
			st := h.Status()
			if st.State == api.HostBlocked || st.State == api.HostNeedsLogin {
				t.Fatalf("%+v", st)
			}
			if len(at) > 0 && (st.State != api.HostWaiting || !strings.Contains(st.Cause, "login:22 refuses connections from this network for a while") || !strings.Contains(st.Cause, "; next try at ")) {
				t.Fatalf("%+v", st)
			}
		}
		for i, want := range []time.Duration{30 * time.Second, 150 * time.Second, 750 * time.Second, 1350 * time.Second, 1950 * time.Second} {
			if len(at) != 6 || at[i+1]-at[0] != want {
				t.Errorf("dialled at %v, want %v after the first", at, want)
			}
		}
		s.Set(func(s *sshtest.Server) { s.Greeting = "" })
		awaitHost(t, h, 10*time.Minute, func() bool { return h.Status().State == api.HostUp })
	}))
	t.Run("a broken login of a user needs them again", simulated(func(t *testing.T) {
		s := sshtest.NewServer(t, pushing("", time.Hour))
		time.AfterFunc(time.Second, s.Cut)
		b, h, err := logIn(t, s, nil)
		if codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "the connection broke before the login was complete: ") {
			t.Errorf("Await: %v", err)
		}
		day(b, s)
		if st := h.Status(); st.State != api.HostNeedsLogin || b.memory.Known("login").Logins.Refusals != 0 {
			t.Errorf("%+v", st)
		}
		s.WantLogins(t, 1)
	}))
}

// haveWaiter has somebody wait for a host until a test ends: after one act of the user, or
// with many.
func haveWaiter(t *testing.T, h *Host, active bool) {
	t.Helper()
	h.Waiting(true)
	var polling sync.WaitGroup
	end := make(chan struct{})
	polling.Go(func() {
		for {
			select {
			case <-time.After(5 * time.Second):
				h.Waiting(active)
			case <-end:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(end)
		polling.Wait()
	})
}

// unreachable makes every dial fail, and returns when they came.
func unreachable(b *bench) (dials func() []time.Time, restore func()) {
	var mu sync.Mutex
	var at []time.Time
	dial := b.network.Dial
	gone := true
	b.network.Dial = func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
		mu.Lock()
		fails := gone
		at = append(at, time.Now())
		mu.Unlock()
		if fails {
			return nil, errors.New("no route to host")
		}
		return dial(ctx, d, network, address)
	}
	return func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(at)
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			gone = false
		}
}

// TestBrokenLogin breaks logins of a host that is logged in to by itself.
func TestBrokenLogin(t *testing.T) {
	for name, fault := range map[string]func(*sshtest.Server){
		"silent": func(s *sshtest.Server) {
			s.Pause(true)
			time.AfterFunc(40*time.Second, func() { s.Pause(false) })
		},
		"cut":    (*sshtest.Server).Cut,
		"closed": (*sshtest.Server).Drop, // before a signature
	} {
		t.Run(name, simulated(func(t *testing.T) {
			b, s := keyed(t)
			accept := s.Config.PublicKeyCallback
			var broken atomic.Bool
			var at []time.Time
			s.Config.PublicKeyCallback = func(m ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
				if broken.Load() {
					s.Set(func(*sshtest.Server) { at = append(at, time.Now()) })
					fault(s)
					time.Sleep(time.Second)
				}
				return accept(m, k)
			}
			h, _ := connected(t, b)
			broken.Store(true)
			s.Drop()
			for range 24 * 12 {
				time.Sleep(5 * time.Minute)
				b.NetworkChanged() // makes no login sooner
				synctest.Wait()
				if st := h.Status(); st.State != api.HostConnecting && (st.State != api.HostWaiting || !strings.Contains(st.Cause, "during the login")) {
					t.Fatalf("%+v", st)
				}
			}
			broken.Store(false)
			mustConnect(t, h)
			for i := 3; i < len(at); i++ {
				if gap := at[i].Sub(at[i-3]); gap < time.Hour {
					t.Errorf("four unfinished logins within %v", gap)
				}
			}
			if len(at) < 24 {
				t.Errorf("%d tries in a day", len(at))
			}
			if l := b.memory.Known("login").Logins; l.Refusals != 0 {
				t.Errorf("%+v", l)
			}
		}))
	}
}

// restarted is the next process after that of b: it has what b's memory has.
func (b *bench) restarted(t *testing.T) *bench {
	t.Helper()
	b.end()
	next := &bench{person: b.person, memory: b.memory, Pool: NewPool(b.o)}
	next.resolve, next.network.Dial, next.network.Lookup, next.network.Watch = b.resolve, b.network.Dial, b.network.Lookup, b.network.Watch
	next.serve(t)
	return next
}

// refuse makes a server refuse every login, until the returned function is called.
func refuse(s *sshtest.Server) (accept func()) {
	was := s.Config.PublicKeyCallback
	s.Config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, errors.New("no") }
	return func() { s.Config.PublicKeyCallback = was }
}

func TestRestart(t *testing.T) {
	t.Run("keeps the time between two logins", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		b.serve(t)
		b.Host("login").Want()
		synctest.Wait()
		for range 5 { // a crash every few seconds
			time.Sleep(3 * time.Second)
			b = b.restarted(t)
			b.Host("login").Want()
			synctest.Wait()
		}
		if st := b.Host("login").Status(); st.State != api.HostWaiting || !strings.Contains(st.Cause, "next try at") {
			t.Errorf("%s: %s", st.State, st.Cause)
		}
		time.Sleep(44 * time.Second)
		s.WantLogins(t, 1)
		time.Sleep(2 * time.Second)
		if logins := s.Logins(); logins != 2 || b.Host("login").Status().State != api.HostUp {
			t.Errorf("%d logins after a minute: %+v", logins, b.Host("login").Status())
		}
	}))
	t.Run("a login is remembered before the server counts it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		accept := s.Config.PublicKeyCallback
		var known time.Time
		s.Config.PublicKeyCallback = func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			known = b.memory.Known("login").Logins.Last
			return accept(c, key)
		}
		b.up(t, "login")
		if known.IsZero() {
			t.Error("a crash during the login would have been followed by another login at once")
		}
	}))
	t.Run("forgets no refusal", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		accept := refuse(s)
		b.serve(t)
		b.Host("login").Want()
		h := b.Host("login")
		awaitHost(t, h, time.Minute, func() bool { return h.Status().State == api.HostWaiting })
		b = b.restarted(t) // after the first of two
		b.Host("login").Want()
		time.Sleep(time.Hour)
		s.WantLogins(t, 2)
		said := b.Host("login").Status().Cause
		b = b.restarted(t)
		h = b.Host("login")
		h.Want()
		day(b, s)
		s.WantLogins(t, 2)
		if st := h.Status(); st.State != api.HostBlocked || st.Code != api.CodeAuth || st.Cause != said || !strings.Contains(st.Hint, "tunctl login login") {
			t.Errorf("before the restart: %s\nafter: %+v", said, st)
		}
		accept()
		mustUp(t, h)
		synctest.Wait() // it is saved a moment after the host is shown as connected
		if l := b.memory.Known("login").Logins; l.Refusals != 0 || l.Why != "" {
			t.Errorf("after a login: %+v", l)
		}
	}))
	t.Run("a login refused during a suspected ban blocks after it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.memory.Remember("login", func(k *api.Known) { k.Silent = true })
		b.memory.Remember("login", func(k *api.Known) {
			k.Logins = api.Logins{BannedUntil: time.Now().Add(time.Hour), Why: "the port is closed"}
		})
		refuse(s)
		b.person.answers = []string{"yes"} // the user tries it nevertheless
		h := b.begin(t, "login")
		_ = h.Await(t.Context())
		said := h.Status().Cause
		b = b.restarted(t)
		h = b.Host("login")
		h.Want()
		time.Sleep(2 * time.Hour)
		if st := h.Status(); st.State != api.HostBlocked || st.Code != api.CodeAuth || st.Cause != said {
			t.Errorf("before the restart: %s\nafter: %+v", said, st)
		}
		s.WantLogins(t, 1)
	}))
}
