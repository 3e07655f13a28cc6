package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/freeport"
)

func runRemote(t *testing.T, o RemoteOptions) *Remote {
	t.Helper()
	r := NewRemote(o)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestARemoteForwardCarriesTheHostsClientsHere(t *testing.T) {
	onHost := make(chan net.Listener, 1)
	r := runRemote(t, RemoteOptions{
		Network: "tcp", Address: "127.0.0.1:0", LocalNetwork: "tcp", LocalAddress: far(t, func(c *net.TCPConn) { echo(c) }),
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err == nil {
				onHost <- l
			}
			return l, err
		},
	})
	c, err := net.Dial("tcp", (<-onHost).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	say(c, "from the host")
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "from the host" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_ = c.Close()
	eventually(t, func() bool { return r.Status().Conns == 0 })
	if got := r.Status(); got.Kind != api.ForwardRemote || got.Total != 1 || got.BytesIn != 13 || got.BytesOut != 13 {
		t.Errorf("status %+v", got)
	}
}

func TestARemoteForwardListensAgainAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		var up atomic.Bool
		var last *pipeListener
		r := runRemote(t, RemoteOptions{Listen: func(context.Context, string, string) (net.Listener, error) {
			tries.Add(1)
			if !up.Load() {
				return nil, api.ErrDown
			}
			last = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			return last, nil
		}})
		time.Sleep(10 * time.Minute)
		if got := tries.Load(); got < 10 || got > 30 {
			t.Errorf("%d tries in ten minutes", got)
		}
		if !errors.Is(r.Err(), api.ErrDown) {
			t.Errorf("err %v", r.Err())
		}
		up.Store(true)
		r.Retry()
		synctest.Wait()
		if r.Err() != nil {
			t.Errorf("not listening when the host was back: %v", r.Err())
		}
		_ = last.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if r.Err() != nil {
			t.Errorf("not listening a second after the loss: %v", r.Err())
		}
	})
}

func TestAClientOfTheHostIsClosedAtOnceWhereNobodyListensHere(t *testing.T) {
	onHost := make(chan net.Listener, 1)
	r := runRemote(t, RemoteOptions{
		Network: "tcp", Address: "127.0.0.1:0", LocalNetwork: "tcp", LocalAddress: closedPort(t),
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err == nil {
				onHost <- l
			}
			return l, err
		},
	})
	// The reset may arrive before the dial has returned.
	if c, err := net.Dial("tcp", (<-onHost).Addr().String()); err == nil {
		defer closing(c)
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
	if got := r.Status(); got.Refused != 1 || !strings.Contains(got.Error, "the last connection, at") {
		t.Errorf("%+v", got)
	}
}

func TestARemoteForwardThatTheHostRefusesSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries, changes atomic.Int64
		answer := errors.New("tcpip-forward request denied by peer")
		var last *pipeListener
		r := runRemote(t, RemoteOptions{
			Address: "localhost:9000",
			Changed: func() { changes.Add(1) },
			Listen: func(context.Context, string, string) (net.Listener, error) {
				tries.Add(1)
				if answer != nil {
					return nil, answer
				}
				last = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
				return last, nil
			},
		})
		synctest.Wait()
		if got := r.Status().Error; r.Refused() == nil || !strings.Contains(got, "denied by peer") || changes.Load() != 1 {
			t.Errorf("it says %q, %d times", got, changes.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := tries.Load(); got < 10 || got > 25 {
			t.Errorf("the host was asked %d times in an hour", got)
		}
		answer = nil
		r.Retry()
		synctest.Wait()
		if got := r.Status().Error; r.Refused() != nil || r.Err() != nil || got != "" || changes.Load() != 2 {
			t.Errorf("now that it listens it says %q, %d times", got, changes.Load())
		}
		answer = api.ErrDown
		_ = last.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.Refused() != nil || r.Err() == nil || changes.Load() != 3 {
			t.Errorf("a lost connection is no refusal: %v", r.Refused())
		}
	})
}

func TestLocalhostIsReachedOnEitherLoopbackAddress(t *testing.T) {
	t.Parallel()
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		if loopback == "::1" && !freeport.HasIPv6(t.Context()) {
			continue
		}
		// Another program may listen on the same port of the other address.
		reached := false
		for range 20 {
			reached = reached || reachesLocalhost(t, loopback)
		}
		if !reached {
			t.Errorf("a server on %s was never reached", loopback)
		}
	}
}

// reachesLocalhost reports whether localhost leads to a server on a loopback address.
func reachesLocalhost(t *testing.T, loopback string) bool {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	conn, err := DialLocal(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	if err != nil {
		t.Errorf("%s: %v", loopback, err)
		return false
	}
	defer func() { _ = conn.Close() }()
	return conn.RemoteAddr().String() == l.Addr().String()
}
