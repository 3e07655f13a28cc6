package tunnel

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
	"tunctl/tunnel/sshconfig"
)

// keyed is a bench with one host "login" that lets a key file in.
func keyed(t *testing.T, set ...func(*sshconfig.Settings)) (*bench, *sshtest.Server) {
	t.Helper()
	path, public := sshtest.NewKeyFile(t)
	s := sshtest.NewServer(t, sshtest.AcceptKey(public))
	return newBench(t, s, func(x *sshconfig.Settings) {
		x.IdentityFiles = []string{path}
		for _, change := range set {
			change(x)
		}
	}), s
}

func codeOf(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

func mustConnect(t testing.TB, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := h.Await(ctx); err != nil {
		t.Fatalf("Await: %v (%+v)", err, h.Status())
	}
}

// mustUp connects to a host that the user wants.
func mustUp(t testing.TB, h *Host) {
	t.Helper()
	h.Up()
	mustConnect(t, h)
}

func TestHost(t *testing.T) {
	t.Run("a key logs in, and the login node is known", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		b.serve(t)
		h := b.Host("login")
		if h.Status().State != api.HostDown {
			t.Errorf("a new host is %q", h.Status().State)
		}
		mustUp(t, h)
		synctest.Wait()
		got := h.Status()
		if got.State != api.HostUp || got.Auth != "publickey" || got.LoginNode != "login2.example.org" {
			t.Errorf("status = %+v", got)
		}
		if a := got.Algorithms; a == nil || a.KeyExchange == "" || a.HostKey != "ssh-ed25519" || a.Cipher == "" {
			t.Errorf("algorithms %+v", a)
		}
		if !b.memory.Known("login").Silent {
			t.Error("a login by key alone is not remembered as silent")
		}
		if q := b.person.questions(); len(q) > 0 {
			t.Errorf("asked %v", q)
		}
	}))
	t.Run("comes back by itself after a drop", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		time.Sleep(time.Hour)
		s.Drop()
		synctest.Wait()
		mustConnect(t, h)
		s.WantLogins(t, 2)
	}))
	t.Run("its status has the sessions in use", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		b.serve(t)
		h := b.Host("login")
		check := func(when string, used, most int) {
			t.Helper()
			all := b.Hosts()
			for _, st := range []api.Host{h.Status(), all[0]} {
				if st.Channels != used || st.MaxChannels != most {
					t.Errorf("%s: %d of %d sessions, want %d of %d", when, st.Channels, st.MaxChannels, used, most)
				}
			}
		}
		check("down", 0, 0)
		mustUp(t, h)
		synctest.Wait() // the command after the login has ended
		most := DefaultLimits().MaxSessions
		check("idle", 0, most)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = h.Run(ctx, "sleep", nil)
		}()
		synctest.Wait()
		check("while a command runs", 1, most)
		cancel()
		<-done
		synctest.Wait()
		check("after it", 0, most)
	}))
	t.Run("Run gives output and status", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		b.serve(t)
		h := b.Host("login")
		if _, err := h.Run(t.Context(), "cat", nil); !errors.Is(err, api.ErrDown) {
			t.Errorf("Run while down: %v", err)
		}
		mustUp(t, h)
		r, err := h.Run(t.Context(), "cat", []byte("hello"))
		if err != nil || string(r.Stdout) != "hello" || r.Exit != 0 {
			t.Errorf("cat: %q %d %v", r.Stdout, r.Exit, err)
		}
		r, err = h.Run(t.Context(), "false", nil)
		if err != nil || r.Exit != 1 || string(r.Stderr) != "no\n" {
			t.Errorf("false: %+v %v", r, err)
		}
		if _, err := h.Run(t.Context(), "flood", nil); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("flood: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := h.Run(ctx, "sleep", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sleep: %v", err)
		}
	}))
	t.Run("Dial names the kind of failure", simulated(func(t *testing.T) {
		b, _ := keyed(t)
		h := b.up(t, "login")
		c := sshtest.DialEcho(t, h)
		_, _ = io.WriteString(c, "ping")
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(c); string(got) != "ping" || err != nil {
			t.Errorf("echo: %q %v", got, err)
		}
		_ = c.Close()
		if _, err := h.Dial(t.Context(), "tcp", "refused:1"); !errors.Is(err, api.ErrRefused) {
			t.Errorf("refused: %v", err)
		}
		if _, err := h.Dial(t.Context(), "tcp", "elsewhere:1"); !errors.Is(err, api.ErrProhibited) {
			t.Errorf("prohibited: %v", err)
		}
	}))
	t.Run("a frozen server is found dead and every caller released", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		time.Sleep(10 * time.Minute)
		s.Pause(true)
		start := time.Now()
		if _, err := h.Run(t.Context(), "cat", nil); !errors.Is(err, api.ErrDown) {
			t.Errorf("Run on a frozen server: %v", err)
		}
		if took := time.Since(start); took > 125*time.Second {
			t.Errorf("found dead after %v", took)
		}
		s.Pause(false)
		mustConnect(t, h)
	}))
	t.Run("a stall of seconds drops nothing", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.up(t, "login")
		for range 100 {
			s.Pause(true)
			time.Sleep(3 * time.Second)
			s.Pause(false)
			time.Sleep(17 * time.Second)
		}
		s.WantLogins(t, 1)
	}))
	t.Run("Down disconnects and stays down", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		h.Down()
		time.Sleep(time.Hour)
		if got := h.Status().State; got != api.HostDown {
			t.Errorf("state = %q", got)
		}
		s.WantLogins(t, 1)
	}))
	t.Run("Down during a try ends it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		s.Set(func(s *sshtest.Server) { s.Silent = true })
		h := b.begin(t, "login")
		time.Sleep(time.Second)
		start := time.Now()
		h.Down()
		synctest.Wait()
		if h.Status().State != api.HostDown || time.Since(start) > 0 {
			t.Errorf("%+v after %v", h.Status(), time.Since(start))
		}
	}))
	t.Run("what is no SSH server is named and not logged in to", func(t *testing.T) {
		for name, test := range map[string]struct {
			fault func(*sshtest.Server)
			says  string
		}{
			"an open port that says nothing": {func(s *sshtest.Server) { s.Silent = true }, "the server sent no banner"},
			"a web page":                     {func(s *sshtest.Server) { s.Greeting = "HTTP/1.1 302 Found\r\nLocation: http://portal/\r\n\r\n" }, "HTTP/1.1 302"},
			"a bare page":                    {func(s *sshtest.Server) { s.Greeting = "<html>log in</html>" }, "<html>"},
			"a closed port":                  {func(s *sshtest.Server) { s.Refuse = syscall.ECONNREFUSED }, "refused the connection"},
			"an early end":                   {func(s *sshtest.Server) { s.Greeting = "Exceeded MaxStartups\r\n" }, "Exceeded MaxStartups"},
		} {
			t.Run(name, simulated(func(t *testing.T) {
				b, s := keyed(t)
				s.Set(test.fault)
				h := b.begin(t, "login")
				start := time.Now()
				err := h.Await(t.Context())
				if codeOf(err) != api.CodeUnreachable || !strings.Contains(err.Error(), test.says) {
					t.Errorf("Await: %v", err)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("a person waited %v", took)
				}
				s.WantLogins(t, 0)
				s.Set(func(s *sshtest.Server) { s.Silent, s.Greeting, s.Refuse = false, "", nil })
				mustUp(t, h)
			}))
		}
	})
	t.Run("a login in two steps asks the user for the second", simulated(func(t *testing.T) {
		path, public := sshtest.NewKeyFile(t)
		s := sshtest.NewServer(t, twoStep(public, "123456"))
		b := newBench(t, s, withKeys(path))
		b.person.answers = []string{"1", "123456"}
		h := b.up(t, "login")
		if got := h.Status().Auth; got != "publickey+keyboard-interactive" {
			t.Errorf("auth = %q", got)
		}
		if b.memory.Known("login").Silent {
			t.Error("remembered as silent")
		}
		q := b.person.questions()
		if len(q) != 2 || q[0].Echo != true || q[1].Echo || !strings.Contains(q[0].Instruction, "Duo") || q[0].Host != "login" {
			t.Errorf("asked %+v", q)
		}
		s.Drop()
		synctest.Wait()
		if got := h.Status(); got.State != api.HostNeedsLogin || !strings.Contains(got.Hint, "tunctl login login") {
			t.Errorf("after a drop: %+v", got)
		}
		time.Sleep(24 * time.Hour)
		s.WantLogins(t, 1)
	}))
}

// twoStep wants a key, then a menu and a code, as Duo does.
func twoStep(public ssh.PublicKey, code string) sshtest.Login {
	return sshtest.AcceptKeyThen(public, func(ask ssh.KeyboardInteractiveChallenge) error {
		answers, err := ask("", "Duo two-factor login", []string{"Passcode or option (1-2): ", "Code: "}, []bool{true, false})
		if err == nil && answers[1] != code {
			err = errors.New("wrong code")
		}
		return err
	})
}
