package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/api"
	"tunctl/internal/dev/testport"
	"tunctl/internal/dev/wait"
)

// dialerFunc is a Dialer made of a function.
type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialerFunc) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

// direct dials without a host in between.
var direct = dialerFunc((&net.Dialer{}).DialContext)

// run serves a forward until the test ends.
func run(t *testing.T, f *Forward) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// listen opens and serves a forward.
func listen(t *testing.T, o ListenOptions) *Forward {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	f, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, f)
	return f
}

// far serves TCP connections with handle on a loopback port until the test ends.
func far(t *testing.T, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveFar(t, l, func(c net.Conn) { handle(c.(*net.TCPConn)) })
	return l.Addr().String()
}

func serveFar(t *testing.T, l net.Listener, handle func(net.Conn)) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer closing(c)
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
}

func dialForward(t *testing.T, f *Forward) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func closing(c io.Closer) { _ = c.Close() }

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// closedPort is a loopback address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testport.Free(t)))
}

func TestAClientThatFinishedSendingStillGetsItsAnswer(t *testing.T) {
	address := far(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d bytes", len(b))
	})
	f := listen(t, ListenOptions{Name: "db"})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})

	c := dialForward(t, f)
	say(c, "hello")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "5 bytes" || err != nil {
		t.Errorf("answer %q, %v", got, err)
	}
}

// TestStatusUnanswered: a server that closes without an answer is told of, until the next connection.
func TestStatusUnanswered(t *testing.T) {
	address := far(t, func(c *net.TCPConn) {
		request := make([]byte, 4)
		_, _ = io.ReadFull(c, request)
		if string(request) == "ping" {
			say(c, "pong")
		}
	})
	f := listen(t, ListenOptions{Name: "db"})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})
	for request, want := range map[string]string{"quit": "failed: the server closed it without an answer", "ping": ""} {
		c := dialForward(t, f)
		say(c, request)
		_, _ = io.ReadAll(c)
		_ = c.Close()
		wait.Until(t, "the connection is over", func() bool { return f.Status().Conns == 0 })
		if got := f.Status().Error; !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("after %q: %q", request, got)
		}
	}
}

func TestAServerThatFinishedSendingStillHearsTheClient(t *testing.T) {
	heard := make(chan string, 1)
	address := far(t, func(c *net.TCPConn) {
		say(c, "greeting")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})

	c := dialForward(t, f)
	if got, err := io.ReadAll(c); string(got) != "greeting" || err != nil {
		t.Fatalf("greeting %q, %v", got, err)
	}
	say(c, "late words")
	_ = c.CloseWrite()
	if got := <-heard; got != "late words" {
		t.Errorf("server heard %q", got)
	}
}

func TestUnixSocketsServeOnEitherSide(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "far.sock"))
	if err != nil {
		t.Fatal(err)
	}
	serveFar(t, l, echo)
	near := filepath.Join(dir, "near.sock")
	f := listen(t, ListenOptions{UnixPath: near})
	f.Open(Target{Dialer: direct, Network: "unix", Address: l.Addr().String()})

	c, err := net.Dial("unix", near)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(c)
	say(c, "through two sockets")
	_ = c.(*net.UnixConn).CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "through two sockets" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got := f.Status(); got.Listen != near || got.Target != l.Addr().String() {
		t.Errorf("status %+v", got)
	}
	if info, err := os.Stat(near); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %v, %v", info.Mode(), err)
	}
}

func TestARefusedDialResetsTheClientAtOnceAndCounts(t *testing.T) {
	f := listen(t, ListenOptions{})
	said := make(chan struct{})
	late := dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		<-said
		return direct.Dial(ctx, network, address)
	})
	f.Open(Target{Dialer: late, Network: "tcp", Address: closedPort(t)})
	c := dialForward(t, f)
	_ = c.SetDeadline(time.Now().Add(longest))
	say(c, "a whole question")
	_ = c.CloseWrite()
	close(said)
	if got, err := io.ReadAll(c); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %q, %v: as if that were the answer", got, err)
	}
	if got := f.Status().Refused; got != 1 {
		t.Errorf("refused %d", got)
	}
}

func TestCountersTellWhatWasCarried(t *testing.T) {
	address := far(t, func(c *net.TCPConn) {
		_, _ = io.ReadAll(c)
		_, _ = c.Write(make([]byte, 300_000))
	})
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address})
	c := dialForward(t, f)
	_, _ = c.Write(make([]byte, 1000))
	eventually(t, func() bool { return f.Status().Conns == 1 })
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
	eventually(t, func() bool { return f.Status().Conns == 0 })
	got := f.Status()
	if got.Total != 1 || got.BytesOut != 1000 || got.BytesIn != 300_000 || got.LastUsed.IsZero() || got.Kind != api.ForwardLocal {
		t.Errorf("status %+v", got)
	}
}

// eventually polls until is returns true.
func eventually(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(longest); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

// cutOff is a connection to a target whose link is lost after its first words.
type cutOff struct {
	net.Conn
	first io.Reader
}

func (c *cutOff) Read(p []byte) (int, error) {
	if n, err := c.first.Read(p); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("read: %w", api.ErrDown)
}

// lingering is a client's connection that records whether the forward reset it.
type lingering struct {
	net.Conn
	reset atomic.Bool
}

func (l *lingering) SetLinger(sec int) error {
	l.reset.Store(sec == 0)
	return nil
}

func TestAStreamWhoseLinkIsLostIsResetAtTheClient(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Open(Target{Network: "tcp", Address: "x:1", Dialer: dialerFunc(func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }()
			return &cutOff{here, strings.NewReader("half of it")}, nil
		})})
		here, there := net.Pipe()
		defer closing(here)
		client := &lingering{Conn: there}
		l.conns <- client
		if got, _ := io.ReadAll(here); string(got) != "half of it" || !client.reset.Load() {
			t.Errorf("the client got %q, and was reset: %v", got, client.reset.Load())
		}
	})
}

func TestEndingServeEndsEveryConnection(t *testing.T) {
	address := far(t, func(c *net.TCPConn) { echo(c) })
	leaks := goleak.IgnoreCurrent()
	f, err := Listen(ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address, HTTP: true})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx) }()
	c := dialForward(t, f)
	say(c, "ping")
	_, _ = io.ReadFull(c, make([]byte, 4))
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(c); err == nil {
		t.Error("a cut stream ended like a whole one")
	}
	_ = c.Close()
	goleak.VerifyNone(t, leaks)
}

func TestServeEnd(t *testing.T) {
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	address := far(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len("GET / HTTP/1.1\r\nHost: localhost\r\n"+upgrade)))
		say(c, "HTTP/1.1 101 Switching Protocols\r\n"+upgrade)
		_, _ = io.Copy(io.Discard, c) // until its client leaves
		say(c, "\x81\x04last")
	})
	f, err := Listen(ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address, HTTP: true, Upgrades: DirectUpgrades{direct}})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Serve(ctx) }()
	c := dialForward(t, f)
	say(c, "GET / HTTP/1.1\r\nHost: localhost\r\n"+upgrade)
	_, _ = io.ReadFull(c, make([]byte, len("HTTP/1.1 101 Switching Protocols\r\n"+upgrade)))
	cancel()
	if got, err := io.ReadAll(c); string(got) != "\x81\x04last" || err != nil {
		t.Errorf("the last frame of a WebSocket: %q, %v", got, err)
	}
	_ = c.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// pipeListener accepts net.Pipes, so that a forward can run in a synctest bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

// bubble runs test in a synctest bubble with a forward that listens on pipes.
func bubble(t *testing.T, o ListenOptions, test func(t *testing.T, f *Forward, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		f := newForward(o, &localListener{listeners: []net.Listener{l}, path: "pipe"})
		run(t, f)
		test(t, f, l)
	})
}

// pipeTo is a Dialer whose connections are served by serve.
func pipeTo(serve func(net.Conn)) Dialer {
	return dialerFunc(func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer closing(there)
			serve(there)
		}()
		return here, nil
	})
}

const navigation = "GET /lab?token=geheim HTTP/1.1\r\nHost: localhost:8888\r\nAccept: text/html,*/*;q=0.8\r\n\r\n"

func TestAClientWaitsForTheTargetAndGoesThrough(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Withdraw(Reason{Transient: true})
		c := l.dial()
		defer closing(c)
		go say(c, "early")
		time.Sleep(29 * time.Second)
		synctest.Wait()
		f.Open(Target{Dialer: pipeTo(echo), Network: "tcp", Address: "x:1"})
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestAClientWaitsWhileTheDialerIsDown(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		up := time.Now().Add(12 * time.Second)
		working := pipeTo(echo)
		f.Open(Target{Network: "tcp", Address: "x:1", Dialer: dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			if time.Now().Before(up) {
				return nil, fmt.Errorf("dial: %w", api.ErrDown)
			}
			return working.Dial(ctx, network, address)
		})})
		c := l.dial()
		defer closing(c)
		say(c, "early")
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early" {
			t.Errorf("got %q, %v", got, err)
		}
		if refused := f.Status().Refused; refused != 0 {
			t.Errorf("waiting counted as %d refusals", refused)
		}
	})
}

func TestWhoeverWaitedTooLongIsToldOrClosed(t *testing.T) {
	for _, test := range []struct {
		name, say string
		page      bool
	}{
		{"a navigation", navigation, true},
		{"a websocket", strings.Replace(navigation, "\r\n\r\n", "\r\nUpgrade: websocket\r\n\r\n", 1), false},
		{"an api call", strings.Replace(navigation, "/lab", "/api/kernels", 1), false},
		{"a script's fetch", strings.Replace(navigation, "\r\n\r\n", "\r\nSec-Fetch-Mode: cors\r\n\r\n", 1), false},
		{"a post", "POST / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nContent-Length: 0\r\n\r\n", false},
		{"an image", "GET /x.png HTTP/1.1\r\nHost: localhost\r\nAccept: image/*\r\n\r\n", false},
		{"another protocol", "\x00\x00\x00\x08\x04\xd2\x16\x2f", false},
		{"a silent client", "", false},
		{"half a request", "GET / HTT", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
				f.Withdraw(Reason{Title: "jupyter reconnects", Transient: true})
				start := time.Now()
				c := l.dial()
				defer closing(c)
				go say(c, test.say)
				got, err := io.ReadAll(c)
				if page := strings.HasPrefix(string(got), "HTTP/1.1 503 "); page != test.page || !page && len(got) > 0 {
					t.Errorf("page %v, want %v; got %q", page, test.page, got)
				}
				if err != nil {
					t.Errorf("not a clean close: %v", err)
				}
				want := 30 * time.Second
				if test.page {
					want = 3 * time.Second
				}
				if waited := time.Since(start); waited < want || waited > want+requestTimeout {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

func TestThePageIsToldByAnyNameWhereTheNetworkReachesAServerWithAToken(t *testing.T) {
	for _, test := range []struct{ network, token, page bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		f, err := Listen(ListenOptions{Name: "jupyter"})
		if err != nil {
			t.Fatal(err)
		}
		f.hosts.network = test.network
		run(t, f)
		f.Open(Target{Dialer: pipeTo(echo), Network: "tcp", Address: "x:1", HTTP: true, Limited: true, Token: token(test.token)})
		f.Withdraw(Reason{Title: "jupyter is queued"})
		c := dialForward(t, f)
		say(c, strings.Replace(navigation, "localhost:8888", "lab.example:8888", 1))
		got, _ := io.ReadAll(c)
		closing(c)
		if page := strings.Contains(string(got), "jupyter is queued"); page != test.page {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

func TestALastingReasonIsToldAtOnce(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Withdraw(Reason{Title: "jupyter is queued", Text: "Resources"})
		start := time.Now()
		c := l.dial()
		defer closing(c)
		say(c, navigation)
		got, _ := io.ReadAll(c)
		if !strings.Contains(string(got), "jupyter is queued") {
			t.Errorf("got %q", got)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestAPollOfThePageIsAnsweredAtOnce(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Withdraw(Reason{Title: "jupyter reconnects", Transient: true})
		start := time.Now()
		c := l.dial()
		defer closing(c)
		say(c, strings.Replace(navigation, "\r\n\r\n", "\r\nSec-Fetch-Mode: cors\r\nTunctl-Poll: 1\r\n\r\n", 1))
		got, _ := io.ReadAll(c)
		if !strings.Contains(string(got), "jupyter reconnects") || time.Since(start) != 0 {
			t.Errorf("after %v: %q", time.Since(start), got)
		}
	})
}

func TestAWaitingClientIsToldWhenTheReasonBecomesLasting(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Withdraw(Reason{Title: "jupyter reconnects", Transient: true})
		start := time.Now()
		c := l.dial()
		defer closing(c)
		say(c, navigation)
		time.Sleep(2 * time.Second)
		f.Withdraw(Reason{Title: "narval needs a login"})
		got, _ := io.ReadAll(c)
		if !strings.Contains(string(got), "narval needs a login") || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %q", time.Since(start), got)
		}
	})
}

func TestARefusedDialTellsABrowserWhy(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Open(Target{HTTP: true, Network: "tcp", Address: "cn01:8888", Dialer: dialerFunc(func(context.Context, string, string) (net.Conn, error) {
			return nil, fmt.Errorf("cn01:8888: %w", api.ErrRefused)
		})})
		c := l.dial()
		defer closing(c)
		say(c, navigation)
		got, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(got), "HTTP/1.1 502 ") || !strings.Contains(string(got), api.ErrRefused.Error()) {
			t.Errorf("got %q", got)
		}
		st := f.Status()
		if st.Refused != 1 || !strings.Contains(st.Error, "the last connection, at") || !strings.Contains(st.Error, "cn01:8888: "+api.ErrRefused.Error()) {
			t.Errorf("%+v", st)
		}
		f.Open(Target{Network: "tcp", Address: "cn02:8888"})
		if st := f.Status(); st.Error != "" {
			t.Errorf("of another target: %s", st.Error)
		}
	})
}

func TestANodeThatDropsPacketsIsGivenUpInTime(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Open(Target{HTTP: true, Network: "tcp", Address: "cn01:8888", Dialer: dialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		start := time.Now()
		c := l.dial()
		defer closing(c)
		say(c, navigation)
		got, _ := io.ReadAll(c)
		if !strings.Contains(string(got), "cn01:8888 did not respond within 30 s") || time.Since(start) != dialTimeout {
			t.Errorf("after %v: %q", time.Since(start), got)
		}
	})
}

func TestADialIsGivenUpWhenTheTargetMoves(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		f.Open(Target{Network: "tcp", Address: "cn01:1", Dialer: dialerFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // a node that drops packets
			return nil, ctx.Err()
		})})
		c := l.dial()
		defer closing(c)
		go say(c, "hello")
		time.Sleep(time.Second)
		f.Open(Target{Network: "tcp", Address: "cn02:1", Dialer: pipeTo(echo)})
		start := time.Now()
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || time.Since(start) > time.Second {
			t.Errorf("after %v: %q, %v", time.Since(start), got, err)
		}
	})
}

func TestAPageComesThroughAndConnectionsOutliveTheirTarget(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, r.Host) }))
	defer s.Close()
	f := listen(t, ListenOptions{Name: "jupyter"})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: s.Listener.Addr().String(), HTTP: true})
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	get := func() string {
		t.Helper()
		resp, err := (&http.Client{Transport: tr}).Get("http://" + f.URLHost() + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer closing(resp.Body)
		b, _ := io.ReadAll(resp.Body)
		return string(b)
	}
	if got := get(); got != f.URLHost() {
		t.Errorf("the server saw host %q, want %q", got, f.URLHost())
	}
	f.Withdraw(Reason{Title: "gone"})
	if got := get(); got != f.URLHost() { // over the kept connection
		t.Errorf("after the withdrawal: %q", got)
	}
	if got := f.Status(); got.Total != 1 {
		t.Errorf("connections: %+v", got)
	}
}
