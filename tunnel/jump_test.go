package tunnel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// chain is a bench where "inner" is reached through "outer" and "middle".
func chain(t *testing.T, jump map[string][]string, outer sshtest.Login) (*bench, map[string]*sshtest.Server) {
	t.Helper()
	path, public := sshtest.NewKeyFile(t)
	servers := map[string]*sshtest.Server{}
	for _, name := range []string{"outer", "middle", "inner"} {
		configure := sshtest.AcceptKey(public)
		if name == "outer" && outer != nil {
			configure = outer
		}
		servers[name] = sshtest.NewServer(t, configure)
	}
	servers["outer"].Inner = map[string]*sshtest.Server{"middle": servers["middle"], "inner": servers["inner"]}
	servers["middle"].Inner = map[string]*sshtest.Server{"inner": servers["inner"]}
	b := newBenchOf(t, servers, func(s *sshconfig.Settings) {
		s.IdentityFiles = []string{path}
		s.ProxyJump = jump[s.Alias]
	})
	b.network.Dial = sshtest.Dial(map[string]*sshtest.Server{"outer": servers["outer"]})
	return b, servers
}

func TestJump(t *testing.T) {
	t.Run("a chain is made of shared, kept hosts", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer", "middle"}, "middle": {"outer"}}, nil)
		b.serve(t)
		inner, middle := b.Host("inner"), b.Host("middle")
		mustUp(t, inner)
		mustUp(t, middle)
		if got := strings.Join(inner.Status().Via, " "); got != "outer middle" {
			t.Errorf("via %q", got)
		}
		for _, s := range servers {
			s.WantLogins(t, 1)
		}
		if hop := b.Host("outer,middle").Status(); hop.State != api.HostUp {
			t.Errorf("a user who is asked to log in to %q comes to another host", hop.Alias)
		}
		sshtest.EchoThrough(t, inner)

		inner.Down()
		middle.Down()
		synctest.Wait()
		for _, h := range b.Hosts() {
			if h.State != api.HostDown {
				t.Errorf("%s is %s after all who went through it are down", h.Alias, h.State)
			}
		}
	}))
	t.Run("a logout from a hop says who goes through it", simulated(func(t *testing.T) {
		b, _ := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		b.serve(t)
		inner, outer := b.Host("inner"), b.Host("outer")
		inner.Up()
		outer.Up()
		mustConnect(t, inner)
		if usedBy := outer.Down(); len(usedBy) != 1 || usedBy[0] != "inner" {
			t.Errorf("it is said to be used by %q", usedBy)
		}
		synctest.Wait()
		if got := outer.Status().State; got != api.HostUp {
			t.Errorf("with a user it is %s", got)
		}
		inner.Down()
		if usedBy := outer.Down(); usedBy != nil { // who is on the way down is no user
			t.Errorf("it is said to be used by %q", usedBy)
		}
		synctest.Wait()
		if got := outer.Status().State; got != api.HostDown {
			t.Errorf("without a user it is %s", got)
		}
	}))
	t.Run("a lost hop takes its users along, and all come back", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		h := b.up(t, "inner")
		time.Sleep(time.Hour)
		servers["outer"].Drop()
		synctest.Wait()
		if h.Status().State == api.HostUp && h.Status().Since.Equal(time.Now()) == false {
			t.Errorf("up without its hop: %+v", h.Status())
		}
		mustConnect(t, h)
	}))
	t.Run("a half-open hop is found", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, nil)
		h := b.up(t, "inner")
		time.Sleep(time.Hour)
		servers["outer"].Pause(true)
		start := time.Now()
		if _, err := h.Run(t.Context(), "cat", nil); !errors.Is(err, api.ErrDown) || time.Since(start) > 125*time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(start))
		}
		servers["outer"].Pause(false)
		mustConnect(t, h)
	}))
	t.Run("a hop that needs the user says so at its users", simulated(func(t *testing.T) {
		b, servers := chain(t, map[string][]string{"inner": {"outer"}}, sshtest.AcceptPassword("right"))
		h := b.want(t, "inner")
		err := h.Await(t.Context())
		if codeOf(err) != api.CodeNeedsPerson || !strings.Contains(err.Error(), "outer") || h.Status().State != api.HostNeedsLogin {
			t.Errorf("Await: %v, %+v", err, h.Status())
		}
		if dials := servers["outer"].Dials(); dials != 0 {
			t.Errorf("%d dials", dials)
		}
		b.person.answers = []string{"right"}
		mustUp(t, h)
	}))
	t.Run("a host that jumps through itself is refused", simulated(func(t *testing.T) {
		b, _ := chain(t, map[string][]string{"inner": {"middle"}, "middle": {"inner"}}, nil)
		h := b.begin(t, "inner")
		if err := h.Await(t.Context()); codeOf(err) != api.CodeConfig {
			t.Errorf("Await: %v", err)
		}
	}))
	t.Run("two names of one account share one login", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.target = func(string) string { return "login" }
		b.serve(t)
		one, two := b.Host("one"), b.Host("two")
		one.Up()
		two.Up()
		mustConnect(t, one)
		mustConnect(t, two)
		s.WantLogins(t, 1)
		one.Down()
		synctest.Wait()
		if r, err := two.Run(t.Context(), "cat", []byte("x")); err != nil || string(r.Stdout) != "x" {
			t.Errorf("Run: %v", err)
		}
		two.Down()
		synctest.Wait()
		for _, h := range b.Hosts() {
			if h.State != api.HostDown {
				t.Errorf("%+v", h)
			}
		}
	}))
	t.Run("two hosts that jump through each other do not wait for ever", simulated(func(t *testing.T) {
		for range 2000 {
			p := newPool(Options{Limits: PracticeLimits()})
			ctx, cancel := context.WithCancel(t.Context())
			begin, ended := make(chan struct{}), make(chan error, 2)
			for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
				try := newAttempt(p.Host(pair[0]))
				go func() {
					<-begin
					ended <- try.useHost(ctx, p.Host(pair[1]), "")
				}()
			}
			synctest.Wait()
			close(begin)
			synctest.Wait()
			refused := len(ended)
			cancel()
			synctest.Wait()
			if refused != 1 {
				t.Fatalf("%d of two were refused", refused)
			}
			if e, ok := errors.AsType[*api.Error](<-ended); !ok || e.Code != api.CodeConfig {
				t.Fatalf("the first to end: %v", e)
			}
		}
	}))
}
