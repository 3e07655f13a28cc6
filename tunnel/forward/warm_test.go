package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
)

// impatient is a web server that closes silent connections after a short timeout, and so
// races with clients that are about to send.
type impatient struct {
	patience time.Duration
	word     string // sent before it closes
	served   atomic.Int64
}

func (s *impatient) serve(c *net.TCPConn) {
	r := bufio.NewReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(s.patience))
		if _, err := r.Peek(1); err != nil {
			say(c, s.word)
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		s.served.Add(1)
		answer := req.Method + " " + req.URL.Path
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	}
}

func TestNoRequestIsLostToAServerThatClosesIdleConnections(t *testing.T) {
	for _, word := range []string{"", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"} {
		t.Run(fmt.Sprintf("saying %.12q", word), func(t *testing.T) {
			// On a busy machine even a new connection can stay silent for that long.
			// No forward can help that, so new connections go to a patient server.
			server := &impatient{patience: 3 * time.Millisecond, word: word}
			patient := &impatient{patience: time.Minute}
			impatience := far(t, server.serve)
			f := listen(t, ListenOptions{})
			f.Open(Target{Dialer: direct, Network: "tcp", Address: far(t, patient.serve), HTTP: true})
			pool := f.current().warm
			pool.dial = func(ctx context.Context) (net.Conn, error) { return direct(ctx, "tcp", impatience) }

			const workers, each = 4, 500
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range each {
						pool.neverLearn()
						if err := getOnce(f.Addr().String(), fmt.Sprintf("/%d/%d", w, i)); err != nil {
							t.Errorf("request %d/%d: %v", w, i, err)
						}
					}
				})
			}
			wg.Wait()
			warm, fresh := server.served.Load(), patient.served.Load()
			t.Logf("%d answered over warm channels, %d over fresh ones", warm, fresh)
			if warm+fresh != workers*each {
				t.Errorf("%d requests were answered", warm+fresh)
			}
			if warm == 0 || fresh == 0 {
				t.Error("nothing was raced")
			}
		})
	}
}

// neverLearn resets what the pool has learned about its server's timeout, so that the
// race continues.
func (p *warmPool) neverLearn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.maxAge = warmAge
}

// getOnce does one request over a connection of its own.
func getOnce(address, path string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer closing(c)
	_ = c.SetDeadline(time.Now().Add(longest))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer closing(resp.Body)
	body, err := io.ReadAll(resp.Body)
	if want := "GET " + path; err == nil && string(body) != want {
		return fmt.Errorf("status %s, body %q, want %q", resp.Status, body, want)
	}
	return err
}

// countingDialer counts its dials, each of which takes a while.
type countingDialer struct {
	took   time.Duration
	dialed atomic.Int64
	open   atomic.Int64
	serve  func(net.Conn)
}

func (d *countingDialer) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctxtime.Sleep(ctx, d.took); err != nil {
		return nil, err
	}
	d.dialed.Add(1)
	d.open.Add(1)
	return pipeTo(func(c net.Conn) {
		defer d.open.Add(-1)
		d.serve(c)
	}).Dial(ctx, "", "")
}

// hello answers each request on c.
func hello(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	}
}

// request does one request over a connection of its own and returns how long it took.
func request(t *testing.T, l *pipeListener, text string) time.Duration {
	t.Helper()
	start := time.Now()
	c := l.dial()
	defer closing(c)
	say(c, text)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(resp.Body)
	_, _ = io.Copy(io.Discard, resp.Body)
	return time.Since(start)
}

const (
	aGet  = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	aPost = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi"
)

func TestTheSecondRequestFindsAnOpenChannel(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		d := &countingDialer{took: 100 * time.Millisecond, serve: hello}
		f.Open(Target{Dialer: d, HTTP: true})
		if took := request(t, l, aGet); took != d.took {
			t.Errorf("the first took %v", took)
		}
		time.Sleep(time.Second)
		if took := request(t, l, aGet); took != 0 {
			t.Errorf("the second took %v", took)
		}
	})
}

func TestOnlyAConnectionThatBeginsWithAnUpgradeGoesItsWay(t *testing.T) {
	const head, upgrade = "GET /ws HTTP/1.1\r\nHost: localhost\r\n", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"
	by := func(name string) DirectUpgrades {
		return DirectUpgrades{pipeTo(func(c net.Conn) {
			for in := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				say(c, name+" "+req.Header.Get("Upgrade")+"\n")
			}
		})}
	}
	for _, tt := range []struct {
		name    string
		http    bool
		upgrade UpgradeDialer
		sent    []string
		want    []string
	}{
		{"an upgrade", true, by("apart"), []string{head + upgrade}, []string{"apart websocket"}},
		{"an upgrade in pieces", true, by("apart"), []string{head, upgrade}, []string{"apart websocket"}},
		{"a page", true, by("apart"), []string{head + "\r\n"}, []string{"direct "}},
		{"an upgrade after a page", true, by("apart"), []string{head + "\r\n", head + upgrade}, []string{"direct ", "direct websocket"}},
		{"an upgrade without a way of its own", true, nil, []string{head + upgrade}, []string{"direct websocket"}},
		{"an upgrade to what is no page", false, by("apart"), []string{head + upgrade}, []string{"direct websocket"}},
	} {
		bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
			f.Open(Target{Dialer: by("direct"), Upgrades: tt.upgrade, Network: "tcp", Address: "x:1", HTTP: tt.http})
			c := l.dial()
			defer closing(c)
			lines := bufio.NewScanner(c)
			answers := len(tt.sent) - len(tt.want) // the request is not complete before
			for i, text := range tt.sent {
				say(c, text)
				if i < answers {
					continue
				}
				if lines.Scan(); lines.Text() != tt.want[i-answers] {
					t.Errorf("%s: %q, want %q", tt.name, lines.Text(), tt.want[i-answers])
				}
			}
		})
	}
}

// notInside returns connections that end with the one to the host.
type notInside struct{ DirectUpgrades }

func (d notInside) DialUpgrade(ctx context.Context, network, address string, request []byte) (net.Conn, error) {
	conn, err := d.DirectUpgrades.DialUpgrade(ctx, network, address, request)
	return DirectConn{conn}, err
}

func TestDirectConnIsCountedWhileItIsOpen(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		to := notInside{DirectUpgrades{pipeTo(func(c net.Conn) { _, _ = io.Copy(c, c) })}}
		f.Open(Target{Dialer: to, Upgrades: to, Network: "tcp", Address: "x:1", HTTP: true})
		c := l.dial()
		say(c, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		synctest.Wait()
		open := f.Status().Direct
		closing(c)
		synctest.Wait()
		if closed := f.Status().Direct; open != 1 || closed != 0 {
			t.Errorf("%d are counted, then %d", open, closed)
		}
	})
}

func TestARequestThatMayNotBeRepeatedGetsAFreshChannel(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		d := &countingDialer{took: 100 * time.Millisecond, serve: hello}
		f.Open(Target{Dialer: d, HTTP: true})
		request(t, l, aGet)
		time.Sleep(time.Second)
		if took := request(t, l, aPost); took != d.took {
			t.Errorf("a POST took %v: it travelled on a channel that may be dying", took)
		}
	})
}

func TestAServerThatSpeaksFirstIsDialledAfterAMoment(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		d := &countingDialer{serve: hello}
		f.Open(Target{Dialer: d, HTTP: true})
		request(t, l, aGet)
		synctest.Wait()
		before := d.dialed.Load()
		c := l.dial()
		defer closing(c)
		time.Sleep(firstRequestTimeout)
		synctest.Wait()
		if got := d.dialed.Load(); got <= before {
			t.Error("a silent client was not connected")
		}
	})
}

func TestOpenChannelsFollowDemand(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		d := &countingDialer{serve: hello}
		idle := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := d.open.Load(); got != want {
				t.Errorf("%s: %d channels, want %d", when, got, want)
			}
		}
		f.Open(Target{Dialer: d, HTTP: true})
		idle(0, "before anybody came")
		request(t, l, aGet)
		idle(2, "after one request")
		for range 4 {
			request(t, l, aGet)
		}
		idle(5, "after five")
		for range 20 {
			request(t, l, aGet)
		}
		idle(6, "after many")
		before := d.dialed.Load()
		time.Sleep(warmAge + time.Second)
		idle(2, "when they got old")
		if d.dialed.Load() == before {
			t.Error("old channels were not replaced")
		}
		time.Sleep(warmIdle)
		idle(0, "after an idle minute")
		last := d.dialed.Load()
		time.Sleep(time.Hour)
		if d.dialed.Load() != last {
			t.Error("channels were opened for nobody")
		}
	})
}

func TestAServersPatienceIsLearnt(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		patience := 8 * time.Second
		d := &countingDialer{serve: func(c net.Conn) {
			_ = c.SetReadDeadline(time.Now().Add(patience))
			hello(c)
		}}
		f.Open(Target{Dialer: d, HTTP: true})
		request(t, l, aGet)
		time.Sleep(patience)
		synctest.Wait()
		if got := f.current().warm.maxAge; got != patience/2 {
			t.Errorf("channels are kept for %v", got)
		}
	})
}

func TestWordsInPiecesTravelWhole(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		const hello = "\x16\x03\x01 a hello in two pieces"
		d := &countingDialer{took: time.Second, serve: func(c net.Conn) {
			got := make([]byte, len(hello))
			if _, err := io.ReadFull(c, got); err == nil {
				say(c, string(got))
			}
		}}
		f.Open(Target{Dialer: d, HTTP: true})
		for range 2 { // over a new connection, then over a warm one
			start := time.Now()
			c := l.dial()
			say(c, hello[:10])
			synctest.Wait()
			go say(c, hello[10:])
			got := make([]byte, len(hello))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != hello {
				t.Errorf("after %v: %q, %v", time.Since(start), got, err)
			}
			closing(c)
			time.Sleep(2 * time.Second)
		}
		if got := f.Status(); got.BytesOut != 2*int64(len(hello)) || got.BytesIn != 2*int64(len(hello)) {
			t.Errorf("status %+v", got)
		}
	})
}

func TestAClientThatBreaksOffIsNotWaitedFor(t *testing.T) {
	asked := make(chan struct{}, 3)
	address := far(t, func(c *net.TCPConn) { // never answers
		if _, err := io.ReadFull(c, make([]byte, len(aGet))); err == nil {
			asked <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, c)
	})
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address, HTTP: true})
	pool := f.current().warm
	for range 3 { // the later ones over warm connections
		c := dialForward(t, f)
		say(c, aGet)
		<-asked
		_ = c.SetLinger(0)
		closing(c)
		eventually(t, func() bool { return f.Status().Conns == 0 })
		eventually(t, pool.ready)
	}
}

func TestAServerLearnsAtOnceThatItsClientHasLeft(t *testing.T) {
	asked, left := make(chan struct{}, 10), make(chan error, 10)
	address := far(t, func(c *net.TCPConn) { // answers the first request, and works on others until the client leaves
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		switch {
		case err != nil:
		case req.URL.Path == "/quick":
			say(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		default:
			asked <- struct{}{}
			_ = c.SetReadDeadline(time.Now().Add(longest))
			_, err := r.ReadByte()
			left <- err
		}
	})
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: address, HTTP: true})
	pool := f.current().warm
	for _, warm := range []bool{false, true} {
		if warm {
			quick := dialForward(t, f)
			say(quick, "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := io.ReadAll(quick); err != nil {
				t.Fatal(err)
			}
			closing(quick)
			eventually(t, pool.ready)
		}
		c := dialForward(t, f)
		say(c, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-asked
		closing(c)
		if err := <-left; !errors.Is(err, io.EOF) {
			t.Errorf("warm %v: the server still waits: %v", warm, err)
		}
		eventually(t, func() bool { return f.Status().Conns == 0 })
		if len(asked) > 0 {
			t.Errorf("warm %v: the server was asked again for a client that had left", warm)
		}
	}
}

func TestNoChannelsAreOpenedAheadWhereTheyAreRefused(t *testing.T) {
	bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
		var dials atomic.Int64
		once := pipeTo(hello)
		f.Open(Target{HTTP: true, Dialer: dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				return nil, errors.New("too many")
			}
			return once.Dial(ctx, network, address)
		})})
		request(t, l, aGet)
		time.Sleep(10 * time.Minute)
		if got := dials.Load(); got > 1+2*int64(warmIdle/warmPause) {
			t.Errorf("%d dials", got)
		}
	})
}

func TestARequestOnADeadChannelWaitsForTheLink(t *testing.T) {
	bubble(t, ListenOptions{Name: "jupyter"}, func(t *testing.T, f *Forward, l *pipeListener) {
		// The link fails silently under two warm connections; the next request
		// notices, and is answered when the link is back.
		cut := make(chan struct{})
		down := false
		d := pipeTo(func(c net.Conn) {
			go hello(c)
			<-cut
		})
		f.Open(Target{HTTP: true, Dialer: dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			if down {
				return nil, api.ErrDown
			}
			return d.Dial(ctx, network, address)
		})})
		request(t, l, aGet)
		synctest.Wait()
		c := l.dial()
		defer closing(c)
		go say(c, "GET /half")
		time.Sleep(100 * time.Millisecond)
		down = true
		close(cut)
		go say(c, " HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(5 * time.Second)
		f.Open(Target{HTTP: true, Dialer: pipeTo(hello)})
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closing(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %s", resp.Status)
		}
	})
}

func FuzzFirstWords(f *testing.F) {
	for _, words := range []string{aGet, aPost, navigation, "\x16\x03\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		f.Add([]byte(words))
	}
	f.Fuzz(func(t *testing.T, words []byte) {
		o := classify(words)
		_ = isNavigation(o.http)
		if o.kind != repeatable || o.http == nil {
			return
		}
		if m := o.http.Method; m != http.MethodGet && m != http.MethodHead && m != http.MethodOptions {
			t.Errorf("%s would be said twice", m)
		}
		if b, _ := io.ReadAll(o.http.Body); len(b) > 0 {
			t.Errorf("a body of %d bytes would be said twice", len(b))
		}
	})
}

func TestWordsAreRepeatedOnlyWhereNothingHappensByThem(t *testing.T) {
	for _, test := range []struct {
		name, say string
		want      requestKind
	}{
		{"nothing", "", incomplete},
		{"half a head", "GET / HTTP/1.1\r\nHost: x", incomplete},
		{"a get", aGet, repeatable},
		{"a head", strings.Replace(aGet, "GET", "HEAD", 1), repeatable},
		{"a websocket", strings.Replace(aGet, "\r\n\r\n", "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 1), repeatable},
		{"a post", aPost, single},
		{"an empty post", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", single},
		{"a delete", strings.Replace(aGet, "GET", "DELETE", 1), single},
		{"a get with a body", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", single},
		{"a get with chunks", "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", single},
		{"a TLS hello", "\x16\x03\x01\x02\x00\x01", repeatable},
		{"postgres", "\x00\x00\x00\x08\x04\xd2\x16\x2f", single},
		{"an endless head", "GET /" + strings.Repeat("x", maxPreread), single},
	} {
		if got := classify([]byte(test.say)).kind; got != test.want {
			t.Errorf("%s: kind %d, want %d", test.name, got, test.want)
		}
	}
}
