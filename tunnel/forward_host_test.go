package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// watched is a client's connection that notes how the forward ended it.
type watched struct {
	net.Conn
	reset atomic.Bool
}

func (w *watched) SetLinger(sec int) error {
	w.reset.Store(sec == 0)
	return nil
}

// overHost runs test with a forward to the host's echo service.
func overHost(t *testing.T, test func(t *testing.T, s *sshServer, h *Host, visit func() (net.Conn, *watched))) {
	synctest.Test(t, func(t *testing.T) {
		b, s := keyed(t)
		b.serve(t)
		h := b.Host("login")
		h.Up()
		mustConnect(t, h)
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		f := newForward(ListenOptions{}, &localSide{listeners: []net.Listener{l}, path: "pipe"})
		run(t, f)
		f.Open(Target{Dialer: h, Network: "tcp", Address: "echo:1"})
		test(t, s, h, func() (net.Conn, *watched) {
			here, there := net.Pipe()
			w := &watched{Conn: there}
			l.conns <- w
			return here, w
		})
	})
}

func TestAStreamCutByALostLinkDoesNotEndLikeAWholeOne(t *testing.T) {
	overHost(t, func(t *testing.T, s *sshServer, _ *Host, visit func() (net.Conn, *watched)) {
		c, w := visit()
		defer closing(c)
		say(c, "half of it")
		if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		s.drop()
		_, _ = io.ReadAll(c)
		if !w.reset.Load() {
			t.Error("the client saw an ordinary end")
		}
	})
}

func TestAClientDuringALossIsServedWhenTheHostIsBack(t *testing.T) {
	overHost(t, func(t *testing.T, s *sshServer, h *Host, visit func() (net.Conn, *watched)) {
		time.Sleep(10 * time.Minute) // a loss soon after the login is waited out
		s.drop()
		synctest.Wait()
		start := time.Now()
		c, _ := visit()
		defer closing(c)
		go say(c, "patience")
		got := make([]byte, 8)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "patience" {
			t.Errorf("got %q, %v; the host is %+v after %v", got, err, h.Status(), time.Since(start))
		}
	})
}

// unsendable is a connection whose loss shows when it is written to.
type unsendable struct{ net.Conn }

func (unsendable) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestALinkWhoseLossShowsWhenItIsWrittenToIsDown(t *testing.T) {
	overHost(t, func(t *testing.T, _ *sshServer, h *Host, _ func() (net.Conn, *watched)) {
		c, err := h.current()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.wire.Conn = unsendable{c.wire.Conn}
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = h.Dial(first, "tcp", "echo:1") // x/crypto tells of the failure at the next one
		if _, err := h.Dial(t.Context(), "tcp", "echo:1"); !errors.Is(err, ErrDown) {
			t.Errorf("a dial: %v, want one that is waited out", err)
		}
		if _, _, err := h.OpenChannel(t.Context(), "direct-tcpip", nil); !errors.Is(err, ErrDown) {
			t.Errorf("a guest's channel: %v", err)
		}
	})
}
