package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/sshtest"
)

// overHost runs test with a host that is connected and has an echo service.
func overHost(test func(t *testing.T, s *sshtest.Server, h *Host)) func(*testing.T) {
	return simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		test(t, s, h)
	})
}

func TestChannel(t *testing.T) {
	t.Run("does not end like a whole one when its link is lost", overHost(func(t *testing.T, s *sshtest.Server, h *Host) {
		c := sshtest.DialEcho(t, h)
		say(c, "half of it")
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		s.Drop()
		if _, err := io.ReadAll(c); !errors.Is(err, api.ErrDown) {
			t.Errorf("the client saw %v", err)
		}
	}))
	t.Run("opens when the host is back", overHost(func(t *testing.T, s *sshtest.Server, h *Host) {
		time.Sleep(10 * time.Minute) // a loss soon after the login is waited out
		s.Drop()
		synctest.Wait()
		start := time.Now()
		c, err := h.Dial(t.Context(), "tcp", "echo:1")
		// A forward waits as long as this for a host that is down.
		for errors.Is(err, api.ErrDown) && time.Since(start) < 30*time.Second {
			time.Sleep(250 * time.Millisecond)
			c, err = h.Dial(t.Context(), "tcp", "echo:1")
		}
		if err != nil {
			t.Fatalf("%v; the host is %+v after %v", err, h.Status(), time.Since(start))
		}
		defer closing(c)
		go say(c, "patience")
		got := make([]byte, 8)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "patience" {
			t.Errorf("got %q, %v; the host is %+v after %v", got, err, h.Status(), time.Since(start))
		}
	}))
	t.Run("fails with the link though only writing shows the loss", overHost(func(t *testing.T, _ *sshtest.Server, h *Host) {
		c, err := h.current()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.wire.Conn = unsendable{c.wire.Conn}
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = h.Dial(first, "tcp", "echo:1") // x/crypto tells of the failure at the next one
		if _, err := h.Dial(t.Context(), "tcp", "echo:1"); !errors.Is(err, api.ErrDown) {
			t.Errorf("a dial: %v, want one that is waited out", err)
		}
		if _, _, err := h.OpenChannel(t.Context(), "direct-tcpip", nil); !errors.Is(err, api.ErrDown) {
			t.Errorf("a shared channel: %v", err)
		}
	}))
}

// unsendable is a connection whose loss shows when it is written to.
type unsendable struct{ net.Conn }

func (unsendable) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAListenerOnALostHostClosesThoughNobodyAcceptsItsStreams(t *testing.T) {
	// A lock of the library that is never released stops the clock of synctest.
	late := time.AfterFunc(longest, func() { panic("the listener does not close") })
	defer late.Stop()
	overHost(func(t *testing.T, s *sshtest.Server, h *Host) {
		l, err := h.Listen(t.Context(), "tcp", "127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		s.Stream(8000) // the library keeps one of them, and waits with the second
		s.Stream(8000)
		synctest.Wait()
		s.Drop()
		if err := l.Close(); err == nil {
			t.Error("the host was asked to end the listener over a lost connection")
		}
	})(t)
}

func TestConn(t *testing.T) {
	// A channel that is opened in the moment in which its link ends must not be waited
	// for: the test hangs then, which synctest tells.
	t.Run("what is begun when a link ends, ends with it", simulated(func(t *testing.T) {
		b, s := keyed(t)
		b.serve(t)
		h := b.Host("login")
		for range 50 {
			mustUp(t, h)
			ended := make(chan struct{})
			for i := range 4 {
				go func() {
					defer func() { ended <- struct{}{} }()
					for n := 0; ; n++ {
						if i == 0 && n == 5 {
							go s.HangUp()
						}
						if _, err := h.Dial(t.Context(), "tcp", "refused:1"); !errors.Is(err, api.ErrRefused) {
							return
						}
					}
				}()
			}
			for range 4 {
				<-ended
			}
		}
		time.Sleep(time.Hour)
		mustConnect(t, h)
	}))
	t.Run("the host comes back though something hangs on the lost one", simulated(func(t *testing.T) {
		b, s := keyed(t)
		h := b.up(t, "login")
		c, err := h.current()
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		defer close(release)
		c.spawn(func() { <-release })
		time.Sleep(time.Hour)
		s.Drop()
		synctest.Wait()
		time.Sleep(closeTimeout)
		synctest.Wait()
		mustConnect(t, h)
		if now, err := h.current(); err != nil || now == c {
			t.Errorf("it still has the lost connection, %v", err)
		}
	}))
}
