package tunnel

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// overHost runs test with a forward to the host's echo service.
func overHost(t *testing.T, test func(t *testing.T, s *sshServer, h *Host, l *pipeListener)) {
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
		test(t, s, h, l)
	})
}

func TestAClientDuringALossIsServedWhenTheHostIsBack(t *testing.T) {
	overHost(t, func(t *testing.T, s *sshServer, h *Host, l *pipeListener) {
		time.Sleep(10 * time.Minute) // a loss soon after the login is waited out
		s.drop()
		synctest.Wait()
		start := time.Now()
		c := l.dial()
		defer closing(c)
		go say(c, "patience")
		got := make([]byte, 8)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "patience" {
			t.Errorf("got %q, %v; the host is %+v after %v", got, err, h.Status(), time.Since(start))
		}
	})
}
