package forward

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// notebook is a server without a token.
func notebook(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "your data, for %s", r.Host)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// requestBy makes requests over one connection and returns their status codes.
func requestBy(t *testing.T, f *Forward, requests ...string) (codes []int, said string) {
	t.Helper()
	c := dialForward(t, f)
	defer closing(c)
	_ = c.SetDeadline(time.Now().Add(longest))
	r := bufio.NewReader(c)
	for _, text := range requests {
		say(c, text)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return append(codes, 0), said
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		codes, said = append(codes, resp.StatusCode), said+string(body)
	}
	return codes, said
}

// token is what a server requires, or nothing.
func token(required bool) api.Secret {
	if !required {
		return api.Secret{}
	}
	return api.NewSecret("3ad1")
}

func get(host string) string { return "GET /lab HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }

const upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

func TestAPageElsewhereCannotReadAServerWithoutATokenByItsOwnName(t *testing.T) {
	address := notebook(t)
	for _, http := range []bool{false, true} {
		f := listen(t, ListenOptions{Hosts: []string{"Lab.Example"}})
		f.Open(Target{Dialer: direct, Network: "tcp", Address: address, HTTP: http})
		refused := int64(0)
		for _, c := range []struct {
			requests []string
			want     []int
		}{
			{[]string{get("localhost:8888")}, []int{200}},
			{[]string{get("a.localhost.")}, []int{200}},
			{[]string{get("127.0.0.5:1"), get("[::1]:1"), get("lab.example")}, []int{200, 200, 200}},
			{[]string{"GET / HTTP/1.0\r\n\r\n"}, []int{200}},
			{[]string{get("evil.example:8888")}, []int{421}},
			{[]string{"x-y /lab HTTP/1.1\r\nhost: evil.example\r\n\r\n"}, []int{421}},
			{[]string{"GET /lab HTTP/1.1\r\n\r\n"}, []int{421}},
			{[]string{"GET /ws HTTP/1.1\r\nHost: evil.example\r\n" + upgrade}, []int{421}},
			{[]string{"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"}, []int{421}},
			// A foreign name in a later request, after each kind of body, ends the connection.
			{[]string{get("localhost"), get("evil.example")}, []int{200, 0}},
			{[]string{"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", get("evil.example")}, []int{200, 0}},
			{[]string{"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\nA: b\r\n\r\n", get("evil.example")}, []int{200, 0}},
			{[]string{get("localhost"), get("localhost"), "GET /ws HTTP/1.1\r\nHost: evil.example\r\n" + upgrade}, []int{200, 200, 0}},
		} {
			codes, said := requestBy(t, f, c.requests...)
			if fmt.Sprint(codes) != fmt.Sprint(c.want) || strings.Contains(said, "data, for evil") {
				t.Errorf("HTTP %v: %q: %d, want %d; %s", http, c.requests, codes, c.want, said)
			}
			last := codes[len(codes)-1]
			if last == 421 || last == 0 {
				refused++
			}
			if last == 421 && !strings.Contains(said, "allow_hosts") {
				t.Errorf("it said %q", said)
			}
		}
		eventually(t, func() bool { return f.Status().Conns == 0 })
		if got := f.Status().Refused; got != refused {
			t.Errorf("%d refusals were counted, want %d", got, refused)
		}
	}
}

func TestOnlyPagesOfTheSessionActOnAServerWithoutAToken(t *testing.T) {
	address := notebook(t)
	f := listen(t, ListenOptions{Hosts: []string{"lab.example"}, Ports: func() []int { return []int{8888, 8889} }})
	f.Open(Target{Dialer: direct, Upgrades: DirectUpgrades{direct}, Network: "tcp", Address: address, HTTP: true})
	refused := int64(0)
	for _, c := range []struct {
		page, host, origin string
		want               int
	}{
		{"its own", "localhost:8888", "http://localhost:8888", 200},
		{"its own, behind another port", "localhost:7000", "http://LOCALHOST:7000", 200},
		{"its own, by port 80", "127.0.0.1", "http://127.0.0.1:80", 200},
		{"another one of the session", "localhost:8888", "http://localhost:8889", 200},
		{"another one, by another name of this machine", "localhost:8888", "https://127.0.0.1:8889", 200},
		{"one of a listed name", "localhost:8888", "https://Lab.Example", 200},
		{"a notebook on another port", "localhost:8888", "http://localhost:8890", 403},
		{"its own address, but not its scheme", "localhost:7000", "https://localhost:7000", 403},
		{"a web site's", "localhost:8888", "https://evil.example", 403},
		{"a web site's, on a port of the session", "localhost:8888", "http://evil.example:8889", 403},
		{"one without an origin", "localhost:8888", "null", 403},
		{"an empty origin's", "localhost:8888", "", 403},
		{"an origin's without a host", "localhost", "http://", 403},
	} {
		head := " /api/run HTTP/1.1\r\nHost: " + c.host + "\r\nOrigin: " + c.origin + "\r\n"
		for _, r := range []struct {
			request string
			want    int
		}{
			{"GET" + head + upgrade, c.want},
			{"POST" + head + "Content-Length: 2\r\n\r\nrm", c.want},
			{"x-y" + head + "\r\n", c.want},
			{"GET" + head + "\r\n", 200}, // answers to other origins are the browser's to hide
			{"OPTIONS" + head + "\r\n", 200},
		} {
			codes, said := requestBy(t, f, r.request)
			if codes[0] != r.want {
				t.Errorf("%s: %q: %d, want %d; %s", c.page, r.request, codes, r.want, said)
			}
			if codes[0] == 403 {
				refused++
				if !strings.Contains(said, "allow_hosts") {
					t.Errorf("it said %q", said)
				}
			}
		}
	}
	if codes, _ := requestBy(t, f, "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: null\r\nContent-Length: 0\r\n\r\n"); codes[0] != 403 {
		t.Errorf("a second origin is not checked: %d", codes)
	}
	eventually(t, func() bool { return f.Status().Conns == 0 })
	if got := f.Status().Refused; got != refused+1 {
		t.Errorf("%d refusals were counted, want %d", got, refused+1)
	}
}

// halfPipe is an end of net.Pipe whose other direction stays open after CloseWrite.
type halfPipe struct{ net.Conn }

func (halfPipe) CloseWrite() error { return nil }

func TestTheEndOfAPrereadDoesNotCutARefusalShort(t *testing.T) {
	client, server := net.Pipe()
	defer closing(client)
	_ = client.SetDeadline(time.Now().Add(longest))
	c := &checkedConn{Conn: halfPipe{server}, requests: requestStream{hosts: &allowedHosts{}}, refused: func(error) {}}
	p := startPreread(c)
	go say(client, get("evil.example"))
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_ = c.SetReadDeadline(time.Unix(1, 0)) // as stop does
	if _, err := io.WriteString(client, "more"); err != nil {
		t.Errorf("what the client still sends is not read: %v", err)
	}
	closing(client)
	<-p.done
}

func TestAServerWithATokenIsReachedByAnyName(t *testing.T) {
	f := listen(t, ListenOptions{})
	withToken := Target{Dialer: direct, Network: "tcp", Address: notebook(t), HTTP: true, Token: token(true)}
	f.Open(withToken)
	if codes, _ := requestBy(t, f, get("lab.example")); codes[0] != 200 {
		t.Errorf("got %d", codes)
	}
	// Also while it is withdrawn; but an unchecked connection never goes to a server
	// without a token.
	f.Withdraw(Reason{Transient: true})
	c := &clientConn{Forward: f, checked: true}
	c.checkRequests()
	withToken.Token = token(false)
	f.Open(withToken)
	if _, err := c.connectTo(t.Context(), f.current()); c.checked || !errors.Is(err, errUnchecked) {
		t.Errorf("checked %v, %v", c.checked, err)
	}
}

func TestAListenerOnTheNetworkIsReachedByAddressesAndTheMachinesName(t *testing.T) {
	network, listed := allowedHosts{network: true}, allowedHosts{listed: []string{"lab.example"}}
	for _, c := range []struct {
		names allowedHosts
		host  string
		want  bool
	}{
		{network, "192.168.1.2:8888", true},
		{network, "[fe80::1]:8888", true},
		{network, "evil.example", false},
		{listed, "lab.example:8888", true},
		{listed, "192.168.1.2", false},
		{listed, "x.lab.example", false},
	} {
		if got := c.names.allow(c.host); got != c.want {
			t.Errorf("%+v: %q: %v", c.names, c.host, got)
		}
	}
}

// TestWhatIsNotHTTPPassesAsItIs sends messages of other protocols byte by byte to an echo
// server, and waits for each byte before the next: none may be held back.
func TestWhatIsNotHTTPPassesAsItIs(t *testing.T) {
	f := listen(t, ListenOptions{})
	f.Open(Target{Dialer: direct, Network: "tcp", Address: far(t, func(c *net.TCPConn) { echo(c) })})
	for _, words := range []string{
		"hello", "open sesame", "GET", "GET /half", "PING\r\n", "get key\r\nget other\r\n", "*1\r\n$4\r\nPING\r\n",
		"SSH-2.0-OpenSSH_9.6p1 Ubuntu-3\r\n", "\x16\x03\x01\x02\x00\x01", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "a LOGIN x y\r\n", "\r\n\r\n",
		"CONNECT db.int:443 HTTP/1.1\r\nHost: db.int\r\n\r\n", "GET http://web.int/ HTTP/1.1\r\nHost: web.int\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"SOURCE /radio HTTP/2.1\r\nno head\r\n",
	} {
		c := dialForward(t, f)
		_ = c.SetDeadline(time.Now().Add(longest))
		for i := range len(words) {
			say(c, words[i:i+1])
			var b [1]byte
			if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != words[i] {
				t.Fatalf("%q at %d: %q, %v", words, i, b, err)
			}
		}
		closing(c)
	}
}

func TestASOCKSClientMayAskForAnyHost(t *testing.T) {
	f := listen(t, ListenOptions{Kind: api.ForwardDynamic})
	address := notebook(t)
	f.Open(Target{Dialer: direct})
	c := dialForward(t, f)
	_ = c.SetDeadline(time.Now().Add(longest))
	host, port, _ := net.SplitHostPort(address)
	var n int
	_, _ = fmt.Sscan(port, &n)
	say(c, "\x05\x01\x00\x05\x01\x00\x03"+string(rune(len(host)))+host+string([]byte{byte(n >> 8), byte(n)}))
	if _, err := io.ReadFull(c, make([]byte, 2+10)); err != nil {
		t.Fatal(err)
	}
	say(c, get("web.int"))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %+v", resp)
	}
}

// FuzzRequestStream sends anything in portions of any size: what passes is what was sent,
// up to a head that is incomplete or refused, whatever the portions are.
func FuzzRequestStream(f *testing.F) {
	f.Add([]byte(get("localhost")+get("evil.example")), 3)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"+get("localhost")), 1)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET"), 7)
	f.Fuzz(func(t *testing.T, said []byte, portion int) {
		passed := func(size int) (all []byte, err error) {
			var r requestStream
			for rest := said; len(rest) > 0; {
				n := min(size, len(rest))
				pass, err := r.filter(bytes.Clone(rest[:n]))
				if err != nil {
					return all, err
				}
				all, rest = append(all, pass...), rest[n:]
			}
			return all, nil
		}
		whole, err1 := passed(len(said) + 1)
		parts, err2 := passed(max(1, portion))
		if !bytes.HasPrefix(said, whole) || !bytes.HasPrefix(said, parts) {
			t.Fatalf("%q passed as %q and %q", said, whole, parts)
		}
		if (err1 == nil) != (err2 == nil) || err1 == nil && !bytes.Equal(whole, parts) {
			t.Fatalf("%q: whole %q, %v; in parts %q, %v", said, whole, err1, parts, err2)
		}
	})
}
