package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lab"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

const (
	clients  = 12
	maxBytes = 2 << 20         // of one stream
	patience = 2 * time.Minute // with one stream
)

// span is how long the soak takes.
func span(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("TUNCTL_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("TUNCTL_SOAK: %v", err)
		}
		return d
	}
	if os.Getenv("TUNCTL_REAL") == "1" || os.Getenv("CI") == "true" {
		return 15 * time.Second
	}
	return 2 * time.Second
}

func TestNoByteIsWrongAndNothingLeaksUnderSteadyDrops(t *testing.T) {
	before := goleak.IgnoreCurrent()
	useNetwork(t)
	files := openFiles()
	length := span(t)
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		_ = ctxtime.Sleep(ctx, length)
		// A busy machine may take longer for a first stream.
		for late := time.Now().Add(patience); ctx.Err() == nil && s.whole.Load() == 0 && time.Now().Before(late); {
			_ = ctxtime.Sleep(ctx, 20*time.Millisecond)
		}
	})
	for i := range clients {
		wg.Go(func() { s.use(ctx, byte(i)) })
	}
	s.breakLink(ctx)
	wg.Wait()
	s.recovers(t)
	s.stop(t)
	t.Logf("%v: %d faults, %d logins, %d streams whole, %d cut, %d MB compared",
		length, s.faults, s.logins, s.whole.Load(), s.cut.Load(), s.compared.Load()>>20)
	for _, err := range s.wrong {
		t.Error(err)
	}
	if s.whole.Load() == 0 || s.faults > 2 && s.cut.Load() == 0 {
		t.Error("the soak proved nothing: no stream was whole, or none was cut")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	for fd, to := range openFiles() {
		if files[fd] != to {
			t.Errorf("%s is open still: %s", fd, to)
		}
	}
}

// soak is a forward in use, and the cluster at its other end.
type soak struct {
	cluster *lab.Cluster
	forward *forward.Forward
	host    *tunnel.Host
	stop    func(*testing.T)
	faults  int
	logins  int

	whole, cut, compared atomic.Int64

	mu    sync.Mutex
	wrong []error
}

func start(t *testing.T) *soak {
	t.Helper()
	cluster, err := lab.Start(lab.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{cluster: cluster}
	pool := tunnel.NewPool(tunnel.Options{SSHConfig: cluster.SSHConfig(), Limits: tunnel.PracticeLimits()})
	s.host = pool.Host(cluster.Alias())
	if s.forward, err = forward.Listen(forward.ListenOptions{Name: "soak"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, serve := range []func(context.Context) error{pool.Serve, s.forward.Serve} {
		wg.Go(func() { _ = serve(ctx) }) // until ctx ends
	}
	wg.Go(func() { serveEcho(echo) })
	s.stop = func(t *testing.T) {
		t.Helper()
		s.logins = cluster.Logins()
		cancel()
		_ = echo.Close()
		wg.Wait()
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}
	s.host.Up()
	if err := s.host.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.forward.Open(forward.Target{Dialer: s.host, Network: "tcp", Address: echo.Addr().String()})
	return s
}

func serveEcho(l net.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = c.Close() }()
			// Hidden behind interfaces: the runtime keeps the pipes by which it would
			// join two sockets.
			_, err := io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			if err != nil {
				_ = c.(*net.TCPConn).SetLinger(0) // what was cut short must not look whole
			}
		})
	}
}

// breakLink does something to the link every few seconds.
func (s *soak) breakLink(ctx context.Context) {
	dice := rand.New(rand.NewPCG(7, 7))
	rest := 500 * time.Millisecond
	for ; ctxtime.Sleep(ctx, rest) == nil; rest = time.Duration(500+dice.IntN(3000)) * time.Millisecond {
		s.faults++
		switch dice.IntN(4) {
		case 0:
			s.cluster.Pause()
			_ = ctxtime.Sleep(ctx, 500*time.Millisecond)
			s.cluster.Resume()
		case 1:
			if err := s.cluster.Refuse(true); err != nil {
				s.fail(err)
			}
			s.cluster.DropAll()
			_ = ctxtime.Sleep(ctx, time.Second)
			if err := s.cluster.Refuse(false); err != nil {
				s.fail(err)
			}
		default:
			s.cluster.DropAll()
		}
	}
}

// use sends one stream after another through the forward, of all sizes and manners.
func (s *soak) use(ctx context.Context, seed byte) {
	noise := rand.NewChaCha8([32]byte{seed})
	dice := rand.New(noise)
	for ctx.Err() == nil {
		sent := make([]byte, 1+dice.IntN(maxBytes))
		_, _ = noise.Read(sent)
		got, err := s.exchange(sent, dice)
		s.compared.Add(int64(len(got)))
		switch {
		case len(got) > len(sent) || !bytes.Equal(got, sent[:len(got)]):
			s.fail(fmt.Errorf("%d bytes came back of %d, and not the same", len(got), len(sent)))
		case err == nil && len(got) < len(sent):
			s.fail(fmt.Errorf("a stream of %d bytes ended after %d as if that were all", len(sent), len(got)))
		case err == nil:
			s.whole.Add(1)
		default:
			s.cut.Add(1)
			_ = ctxtime.Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// exchange sends bytes, ends its side, and returns what came back.
func (s *soak) exchange(sent []byte, dice *rand.Rand) ([]byte, error) {
	c, err := net.DialTimeout("tcp", s.forward.Addr().String(), patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	pauses, step := dice.IntN(3), 1+dice.IntN(256<<10)
	written := make(chan error, 1)
	go func() {
		for left := sent; len(left) > 0; {
			n, err := c.Write(left[:min(step, len(left))])
			if err != nil {
				written <- err
				return
			}
			left = left[n:]
			if pauses > 0 {
				pauses--
				time.Sleep(time.Millisecond) // a client that thinks
			}
		}
		written <- c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	_ = c.Close()
	if werr := <-written; werr != nil && err == nil && len(got) < len(sent) {
		err = werr // it was told while it wrote
	}
	return got, err
}

func (s *soak) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 20 {
		s.wrong = append(s.wrong, err)
	}
}

// recovers shows that all is as before once the breakLink is over.
func (s *soak) recovers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for s.host.Status().State != api.HostUp {
		changed := s.host.Changed()
		if s.host.Status().State == api.HostUp {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the host never came back: %+v", s.host.Status())
		}
	}
	sent := []byte("as good as new")
	got, err := s.exchange(sent, rand.New(rand.NewPCG(1, 1)))
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("after it all: %q, %v", got, err)
	}
	for s.forward.Status().Conns > 0 && ctxtime.Sleep(ctx, 5*time.Millisecond) == nil {
		continue // those that just ended
	}
	if conns := s.forward.Status().Conns; conns > 0 {
		t.Errorf("%d connections are left", conns)
	}
}

// useNetwork lets the runtime open what it keeps for the network.
func useNetwork(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// openFiles are what this process has open, where the system tells.
func openFiles() map[string]string {
	open := map[string]string{}
	list, _ := filepath.Glob("/proc/self/fd/*") // the pattern is good
	for _, fd := range list {
		if to, err := os.Readlink(fd); err == nil {
			open[fd] = to
		}
	}
	return open
}
