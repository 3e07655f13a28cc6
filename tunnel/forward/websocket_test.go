package forward

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"
)

func TestAPingOfAWebSocketIsAnsweredHere(t *testing.T) {
	const (
		request = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		agreed  = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		page    = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
		ping    = "\x89\x82\x01\x02\x03\x04ik" // "hi", masked
		pong    = "\x8a\x02hi"
		nothing = "\x89\x80\x01\x02\x03\x04"
		text    = "\x81\x03abc"
		long    = "\x82\x7e\x01\x00"
	)
	rest := strings.Repeat("x", 256)
	type turn struct{ server, client, arrives string }
	for name, turns := range map[string][]turn{
		"by nobody but this computer":              {{agreed, ping, agreed + pong}},
		"without a payload":                        {{agreed, nothing, agreed + "\x8a\x00"}},
		"in pieces":                                {{agreed[:30], "", agreed[:30]}, {agreed[30:], ping[:3], agreed[30:]}, {"", ping[3:7], ""}, {"", ping[7:], pong}},
		"after what was sent":                      {{agreed + text, text[:1] + "\x83\x00\x00\x00\x00abc" + ping, agreed + text + pong}},
		"not in the middle of a frame":             {{agreed + long + rest[:9], ping, agreed + long + rest[:9]}, {rest[9:], "", rest[9:] + pong}, {text, "", text}},
		"not in the middle of the head of a frame": {{agreed + long[:1], ping, agreed + long[:1]}, {long[1:] + rest, "", long[1:] + rest + pong}},
		"the last of two":                          {{agreed + long, nothing + ping, agreed + long}, {rest, "", rest + pong}},
		"not before the server has agreed":         {{"", ping, ""}, {agreed, "", agreed + pong}},
		"not where the server does not agree":      {{page, ping, page}, {text, "", text}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, ListenOptions{}, func(t *testing.T, f *Forward, l *pipeListener) {
				servers, done := make(chan net.Conn, 1), make(chan struct{})
				defer close(done)
				to := DirectUpgrades{pipeTo(func(c net.Conn) { servers <- c; <-done })}
				f.Open(Target{Dialer: to, Upgrades: to, Network: "tcp", Address: "x:1", HTTP: true, Limited: true})
				client := l.dial()
				defer closing(client)
				say(client, request)
				server := <-servers
				sent, arrived := request, ""
				got, at := collect(server), collect(client)
				for _, turn := range turns {
					say(server, turn.server)
					synctest.Wait()
					say(client, turn.client)
					synctest.Wait()
					sent, arrived = sent+turn.client, arrived+turn.arrives
					if at.String() != arrived {
						t.Errorf("after %q and %q the client has %q, want %q", turn.server, turn.client, at, arrived)
					}
					if got.String() != sent {
						t.Errorf("after %q the server has %q, want %q", turn.client, got, sent)
					}
				}
			})
		})
	}
}

// countedConn counts what is written to it.
type countedConn struct {
	net.Conn
	writes int
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes++
	return len(b), nil
}

func TestAPingThatBothDirectionsSeeIsAnsweredOnce(t *testing.T) {
	client := &countedConn{}
	w := newWebSocket(client)
	w.server.SkipHead()
	const pings = 20_000
	for range pings {
		w.ping.Store(&[]byte{})
		var directions sync.WaitGroup
		directions.Go(w.answer)
		directions.Go(w.answer)
		directions.Wait()
	}
	if client.writes != pings {
		t.Errorf("%d answers to %d pings", client.writes, pings)
	}
}

// collected is what has arrived on a connection.
type collected struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *collected) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(b)
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// collect reads from a connection until it ends.
func collect(from net.Conn) *collected {
	c := &collected{}
	go func() { _, _ = io.Copy(c, from) }()
	return c
}

func TestPingsLeaveTheMessagesOfAWebSocketWhole(t *testing.T) {
	message := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), i*i*3) }
	const messages = 200
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		_, hello, err := c.Read(r.Context())
		for i := 0; err == nil && i < messages; i++ {
			err = c.Write(r.Context(), websocket.MessageText, []byte(message(i)))
		}
		if err != nil || string(hello) != "hello" {
			t.Errorf("the server read %q: %v", hello, err)
		}
		_, _, _ = c.Read(r.Context()) // until the client leaves
	}))
	defer page.Close()
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: page.Listener.Addr().String(), HTTP: true, Upgrades: DirectUpgrades{direct}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+f.Addr().String(), nil) //nolint:bodyclose // it has none
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(1 << 20)
	var pings sync.WaitGroup
	pings.Go(func() {
		for range messages {
			if err := c.Ping(ctx); err != nil {
				t.Error(err)
				return
			}
		}
	})
	if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, got, err := c.Read(ctx); err != nil || string(got) != message(i) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
	done := c.CloseRead(ctx)
	pings.Wait()
	_ = c.CloseNow()
	<-done.Done()
}
