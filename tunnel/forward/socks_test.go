package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

// farNames dials by names that only the host knows.
func farNames(names map[string]string) Dialer {
	return dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, ok := names[address]; ok {
			return direct(ctx, network, to)
		}
		return nil, fmt.Errorf("%q: %w", address, api.ErrRefused)
	})
}

func TestSOCKSClientsReachNamesOfTheFarSide(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(w, "seen as "+r.Host) }))
	defer s.Close()
	f := listen(t, ListenOptions{Kind: api.ForwardDynamic})
	f.Open(Target{Dialer: farNames(map[string]string{"db.int:80": s.Listener.Addr().String()})})

	for _, login := range []*url.Userinfo{nil, url.UserPassword("any", "thing")} {
		proxy := &url.URL{Scheme: "socks5h", Host: f.Addr().String(), User: login}
		tr := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: tr, Timeout: longest}).Get("http://db.int/")
		if err != nil {
			t.Fatalf("login %v: %v", login, err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(b) != "seen as db.int" {
			t.Errorf("login %v: %q", login, b)
		}
	}
	if got := f.Status(); got.Kind != api.ForwardDynamic || got.Target != "" || got.Total != 2 {
		t.Errorf("status %+v", got)
	}
}

func TestSOCKSAnswersAreThoseOfTheRFC(t *testing.T) {
	const greet, noAuth = "\x05\x01\x00", "\x05\x00"
	reply := func(code string) string { return "\x05" + code + "\x00\x01\x00\x00\x00\x00\x00\x00" }
	for _, test := range []struct {
		name, say, want string
		target          Target
	}{
		{"an IPv4 address", greet + "\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50hi", noAuth + reply("\x00") + "hi", Target{Dialer: pipeTo(echo)}},
		{"an IPv6 address", greet + "\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x50hi", noAuth + reply("\x00") + "hi", Target{Dialer: pipeTo(echo)}},
		{"a name", greet + "\x05\x01\x00\x03\x04cn01\x00\x50hi", noAuth + reply("\x00") + "hi", Target{Dialer: pipeTo(echo)}},
		{"several methods", "\x05\x03\x01\x02\x00\x05\x01\x00\x03\x04cn01\x00\x50hi", noAuth + reply("\x00") + "hi", Target{Dialer: pipeTo(echo)}},
		{"only a password", "\x05\x01\x02\x01\x02me\x03pwd\x05\x01\x00\x03\x04cn01\x00\x50hi", "\x05\x02\x01\x00" + reply("\x00") + "hi", Target{Dialer: pipeTo(echo)}},
		{"only GSSAPI", "\x05\x01\x01", "\x05\xff", Target{}},
		{"BIND", greet + "\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", noAuth + reply("\x07"), Target{}},
		{"UDP", greet + "\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", noAuth + reply("\x07"), Target{}},
		{"an unknown address type", greet + "\x05\x01\x00\x09", noAuth + reply("\x08"), Target{}},
		{"a refused dial", greet + "\x05\x01\x00\x03\x04cn01\x00\x50", noAuth + reply("\x05"), Target{Dialer: failing(api.ErrRefused)}},
		{"a forbidden dial", greet + "\x05\x01\x00\x03\x04cn01\x00\x50", noAuth + reply("\x02"), Target{Dialer: failing(api.ErrProhibited)}},
		{"a link that stays down", greet + "\x05\x01\x00\x03\x04cn01\x00\x50", noAuth + reply("\x03"), Target{Dialer: failing(api.ErrDown)}},
		{"SOCKS4", "\x04\x01\x00\x50\x7f\x00\x00\x01\x00", "", Target{}},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "", Target{}},
		{"silence", "", "", Target{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, ListenOptions{Kind: api.ForwardDynamic}, func(t *testing.T, f *Forward, l *pipeListener) {
				f.Open(test.target)
				c := l.dial()
				defer closing(c)
				go say(c, test.say)
				got := make([]byte, len(test.want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != test.want {
					t.Fatalf("got %q, %v; want %q", got, err, test.want)
				}
				if !bytes.HasSuffix(got, []byte("hi")) {
					if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
						t.Errorf("not closed: %d, %v", n, err)
					}
				}
			})
		})
	}
}

func FuzzSOCKSRequest(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x04cn01\x00\x50rest"))
	f.Add([]byte("\x05\x01\x02\x01\x02me\x03pwd\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, said []byte) {
		c := &scripted{Reader: bytes.NewReader(said)}
		address, err := socksRequest(c)
		if err != nil {
			return
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			t.Errorf("address %q: %v", address, err)
		}
		if !bytes.HasPrefix(c.wrote.Bytes(), []byte{socksVersion}) {
			t.Errorf("answered %q", c.wrote.Bytes())
		}
	})
}

// scripted is a client that sends a fixed text.
type scripted struct {
	net.Conn
	io.Reader
	wrote bytes.Buffer
}

func (s *scripted) Read(b []byte) (int, error)       { return s.Reader.Read(b) }
func (s *scripted) Write(b []byte) (int, error)      { return s.wrote.Write(b) }
func (s *scripted) SetDeadline(time.Time) error      { return nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }

func failing(err error) Dialer {
	return dialerFunc(func(context.Context, string, string) (net.Conn, error) { return nil, err })
}
