package forward

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tunctl/internal/api"
)

// tokenServer is a server with a token. It records the whole of what it was sent.
type tokenServer struct {
	address string
	token   api.Secret

	mu   sync.Mutex
	sent []string
}

func newTokenServer(t *testing.T, token string) *tokenServer {
	t.Helper()
	s := &tokenServer{token: api.NewSecret(token)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.sent = append(s.sent, r.RequestURI, fmt.Sprint(r.Header), string(body))
		s.mu.Unlock()
		if r.URL.Query().Get("token") != token && r.Header.Get("Authorization") != "token "+token {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintf(w, "%s", body)
	}))
	t.Cleanup(srv.Close)
	s.address = srv.Listener.Addr().String()
	return s
}

func (s *tokenServer) target() Target {
	return Target{Dialer: direct, Upgrades: DirectUpgrades{direct}, Network: "tcp", Address: s.address, HTTP: true, Token: s.token}
}

// got is what the server was sent.
func (s *tokenServer) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, "\n")
}

const (
	goodLocal = localTokenPrefix + "ABC234"
	oldLocal  = localTokenPrefix + "ABC235"
)

func withHeader(token string) string {
	return "GET /api/sessions HTTP/1.1\r\nHost: localhost:8888\r\nAuthorization: token " + token + "\r\n\r\n"
}

func withQuery(token string) string {
	return "GET /api/kernelspecs?a=b&token=" + token + "&c=%2F HTTP/1.1\r\nHost: localhost:8888\r\nReferer: http://localhost:8888/?token=" + token + "\r\n\r\n"
}

func webSocketWith(token string) string {
	return strings.TrimSuffix(withHeader(token), "\r\n") + upgrade
}

func TestLocalToken(t *testing.T) {
	post := fmt.Sprintf("POST /login?token=%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", goodLocal, len(goodLocal), goodLocal)
	for _, c := range []struct {
		name     string
		requests []string
		codes    []int
		never    bool // no request with a local token may be sent on
	}{
		{"in the header", []string{withHeader(goodLocal)}, []int{200}, true},
		{"in the query", []string{withQuery(goodLocal)}, []int{200}, true},
		{"of a websocket", []string{webSocketWith(goodLocal)}, []int{200}, true},
		{"in each request", []string{withHeader(goodLocal), withQuery(goodLocal), webSocketWith(goodLocal), withHeader(goodLocal)}, []int{200, 200, 200, 200}, true},
		{"not in a body", []string{post, withHeader(goodLocal)}, []int{200, 200}, false},
		{"wrong in the header", []string{withHeader(oldLocal)}, []int{403}, true},
		{"wrong in the query", []string{withQuery(oldLocal)}, []int{403}, true},
		{"wrong and right", []string{withQuery(goodLocal)[:60] + "&x=" + oldLocal + " HTTP/1.1\r\nHost: localhost\r\n\r\n"}, []int{403}, true},
		{"cut off", []string{withQuery(goodLocal[:len(goodLocal)-1])}, []int{403}, true},
		{"encoded", []string{withQuery("%74" + goodLocal[1:])}, []int{403}, true},
		{"wrong in a later request", []string{withHeader(goodLocal), withHeader(oldLocal)}, []int{200, 0}, true},
		{"wrong after a failed upgrade", []string{webSocketWith(goodLocal), withHeader(oldLocal)}, []int{200, 0}, true},
		{"the target's own", []string{withHeader("s&=3"), withHeader("other"), "GET /100%?token=s%26%3D3 HTTP/1.1\r\nHost: localhost\r\n\r\n"}, []int{200, 403, 400}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newTokenServer(t, "s&=3") // as a query has it in another form than a header
			f := listen(t, ListenOptions{LocalToken: func() string { return goodLocal }})
			f.Open(server.target())
			codes, said := requestBy(t, f, c.requests...)
			if !slices.Equal(codes, c.codes) {
				t.Errorf("the answers were %d, want %d: %s", codes, c.codes, said)
			}
			sent := server.got()
			if c.never && strings.Contains(sent, localTokenPrefix[1:]) || strings.Contains(sent, oldLocal) {
				t.Errorf("a local token was sent on: %s", sent)
			}
			if codes[0] == 403 && (sent != "" || !strings.Contains(said, "tunctl open SESSION --client") || f.Status().Refused != 1) {
				t.Errorf("the answer was %q, %d were refused, and the server got %q", said, f.Status().Refused, sent)
			}
		})
	}

	t.Run("in pieces", func(t *testing.T) {
		server := newTokenServer(t, "3ad1")
		f := listen(t, ListenOptions{LocalToken: func() string { return goodLocal }})
		f.Open(server.target())
		c := dialForward(t, f)
		_ = c.SetDeadline(time.Now().Add(longest))
		for _, b := range []byte(withQuery(goodLocal)) {
			_, _ = c.Write([]byte{b})
		}
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusOK { //nolint:bodyclose // of a connection that is closed
			t.Errorf("%v, %v: %s", res, err, server.got())
		}
	})
}

// TestMessageLikeRequest sends messages of another protocol, which may be the beginning of a request.
func TestMessageLikeRequest(t *testing.T) {
	f := listen(t, ListenOptions{LocalToken: func() string { return goodLocal }})
	to := pipeTo(func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err == nil {
			say(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			_, _ = io.Copy(c, in)
		}
	})
	f.Open(Target{Dialer: to, Upgrades: DirectUpgrades{to}, Network: "tcp", Address: "x:1", HTTP: true, Token: api.NewSecret("s")})
	c := dialForward(t, f)
	_ = c.SetDeadline(time.Now().Add(longest))
	say(c, strings.Replace(webSocketWith(goodLocal), "websocket", "other", 1))
	in := bufio.NewReader(c)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols { //nolint:bodyclose // of a connection that is closed
		t.Fatal(res, err)
	}
	for _, message := range []string{"PING", "PING\n", "PING PONG"} {
		say(c, message)
		if _, err := io.ReadFull(in, make([]byte, len(message))); err != nil {
			t.Fatalf("%q has no answer: %v", message, err)
		}
	}
}

func TestLocalTokenRevoked(t *testing.T) {
	server := newTokenServer(t, "3ad1")
	var local atomic.Value
	local.Store("")
	f := listen(t, ListenOptions{LocalToken: func() string { return local.Load().(string) }})
	f.Open(server.target())
	if codes, _ := requestBy(t, f, withHeader(goodLocal)); codes[0] != 403 {
		t.Errorf("before one was made: %d", codes)
	}
	local.Store(goodLocal)
	c := dialForward(t, f)
	_ = c.SetDeadline(time.Now().Add(longest))
	r := bufio.NewReader(c)
	say(c, withHeader(goodLocal))
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusOK { //nolint:bodyclose // of a connection that is closed
		t.Fatalf("%v, %v", res, err)
	}
	local.Store(oldLocal)
	say(c, withHeader(goodLocal))
	if res, err := http.ReadResponse(r, nil); err == nil { //nolint:bodyclose // of a connection that is closed
		t.Errorf("an open connection got %s for a token that was replaced", res.Status)
	}
	if codes, _ := requestBy(t, f, withHeader(oldLocal)); codes[0] != 200 {
		t.Errorf("the new one: %d", codes)
	}
}

// A connection keeps the server that it began with, and gets the token of that server. A client
// that waits between two jobs gets the token of the second.
func TestLocalTokenAcrossJobs(t *testing.T) {
	first, second := newTokenServer(t, "3ad1"), newTokenServer(t, "77fe")
	f := listen(t, ListenOptions{LocalToken: func() string { return goodLocal }})
	f.Open(first.target())
	kept := dialForward(t, f)
	_ = kept.SetDeadline(time.Now().Add(longest))
	r := bufio.NewReader(kept)
	ask := func() int {
		say(kept, withHeader(goodLocal))
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	if code := ask(); code != 200 {
		t.Fatalf("in the first job: %d", code)
	}
	f.Withdraw(Reason{Title: "the next job starts", Transient: true})
	waiting := make(chan []int)
	go func() {
		codes, _ := requestBy(t, f, withQuery(goodLocal), withHeader(goodLocal))
		waiting <- codes
	}()
	eventually(t, func() bool { return f.Status().Conns == 2 })
	f.Open(second.target())
	if codes := <-waiting; !slices.Equal(codes, []int{200, 200}) {
		t.Errorf("a client that waited for the second job: %d", codes)
	}
	if code := ask(); code != 200 {
		t.Errorf("a connection to the first job: %d", code)
	}
	if strings.Contains(first.got(), "77fe") || strings.Contains(second.got(), "3ad1") {
		t.Errorf("a job got the token of another:\n%s\n%s", first.got(), second.got())
	}
}

func TestLocalTokenForeignRequests(t *testing.T) {
	server := newTokenServer(t, "")
	f := listen(t, ListenOptions{LocalToken: func() string { return goodLocal }})
	f.Open(server.target()) // which requires none
	foreign := strings.Replace(withHeader(goodLocal), "localhost", "evil.example", 1)
	if codes, _ := requestBy(t, f, foreign); codes[0] != 421 {
		t.Errorf("a foreign name: %d", codes)
	}
	if codes, _ := requestBy(t, f, withHeader(goodLocal)); codes[0] != 200 || strings.Contains(server.got(), goodLocal) {
		t.Errorf("%d; the server got %q", codes, server.got())
	}
}
