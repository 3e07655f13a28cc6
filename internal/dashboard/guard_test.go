package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/client"
	"tunctl/internal/dev/must"
	"tunctl/internal/home"
)

// serve starts a server whose agent is not running, and returns it with a link to a page.
func serve(t *testing.T) (*Server, string) {
	t.Helper()
	return serveWith(t, Options{Client: client.New(home.In(t.TempDir()))})
}

// serveWith is serve with other options, in a home of its own unless they name one.
func serveWith(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	if o.Paths.State == "" {
		o.Paths = home.In(t.TempDir())
	}
	s, err := Listen(t.Context(), o)
	must.Do(t, err)
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, s.newLink()
}

// hostOf is the Host header of a link's page.
func hostOf(link string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	return host
}

// onLoopback is a browser, for which every name is this computer's.
var onLoopback = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}},
}

// fetch sends a request as the page at host would, but for the headers in other.
func fetch(t *testing.T, host, method, path, body string, other map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(body))
	must.Do(t, err)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		req.Header.Set("Origin", "http://"+host)
	}
	for name, value := range other {
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Set(name, value)
		}
	}
	res, err := onLoopback.Do(req)
	must.Do(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must.Do(t, err)
	return res.StatusCode, res.Header, string(text)
}

// enterAs exchanges the one-time value of a link, at the link's own address.
func enterAs(t *testing.T, link string) (int, string) {
	t.Helper()
	_, once, _ := strings.Cut(link, "#")
	return enterAt(t, hostOf(link), once)
}

func enterAt(t *testing.T, host, once string) (int, string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"once": once})
	must.Do(t, err)
	status, _, text := fetch(t, host, http.MethodPost, enterPath, string(body), nil)
	var res struct{ Bearer string }
	if status == http.StatusOK {
		must.Do(t, json.NewDecoder(bytes.NewBufferString(text)).Decode(&res))
	}
	return status, res.Bearer
}

func TestEnter(t *testing.T) {
	s, link := serve(t)
	other := s.newLink()
	_, once, _ := strings.Cut(link, "#")
	if hostOf(link) == hostOf(other) {
		t.Fatalf("two pages have the address %s", hostOf(link))
	}
	if status, _ := enterAt(t, hostOf(other), once); status != http.StatusGone {
		t.Errorf("at another page's address: %d", status)
	}
	if status, _ := enterAt(t, hostOf(link), "AAAAAAAAAAAAAAAAAAAAAAAAAA"); status != http.StatusGone {
		t.Errorf("a guess: %d", status)
	}
	status, bearer := enterAs(t, link)
	if status != http.StatusOK || bearer == "" || strings.Contains(link, bearer) {
		t.Fatalf("the first use of %s: %d, %q", link, status, bearer)
	}
	if status, _ := enterAs(t, link); status != http.StatusGone {
		t.Errorf("the second use: %d", status)
	}
	old := s.newLink()
	s.mu.Lock()
	s.pages[hostOf(old)].ends = s.pages[hostOf(old)].ends.Add(-linkFor)
	s.mu.Unlock()
	if status, _ := enterAs(t, old); status != http.StatusGone {
		t.Errorf("one that nobody has used for ten minutes: %d", status)
	}
	if status, again := enterAs(t, other); status != http.StatusOK || again == "" || again == bearer {
		t.Errorf("a second page: %d, %q", status, again)
	}
}

func TestGuard(t *testing.T) {
	s, link := serve(t)
	host := hostOf(link)
	_, bearer := enterAs(t, link)
	own := map[string]string{"Authorization": "Bearer " + bearer}
	with := func(name, value string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + bearer, name: value}
	}
	other := s.newLink()
	for _, c := range []struct {
		who    string
		header map[string]string
		get    int
		post   int
	}{
		{"the page", own, http.StatusBadGateway, http.StatusBadGateway}, // passed on: no agent runs
		{"one without a bearer value", nil, http.StatusUnauthorized, http.StatusUnauthorized},
		{"one that guesses it", map[string]string{"Authorization": "Bearer AAAA"}, http.StatusUnauthorized, http.StatusUnauthorized},
		{"one with the one-time value", map[string]string{"Authorization": "Bearer " + link[len(link)-26:]}, http.StatusUnauthorized, http.StatusUnauthorized},
		{"another page of the dashboard", map[string]string{"Authorization": "Bearer " + bearer, "Host": hostOf(other), "Origin": "http://" + hostOf(other)}, http.StatusUnauthorized, http.StatusUnauthorized},
		{"a foreign origin", with("Origin", "https://example.org"), http.StatusForbidden, http.StatusForbidden},
		{"a page without an origin", with("Origin", "null"), http.StatusForbidden, http.StatusForbidden},
		{"a notebook on another port", with("Origin", "http://127.0.0.1:8888"), http.StatusForbidden, http.StatusForbidden},
		{"the page with the button", with("Origin", "http://"+s.door), http.StatusForbidden, http.StatusForbidden},
		{"an image of a notebook", with("Sec-Fetch-Site", "same-site"), http.StatusForbidden, http.StatusForbidden},
		{"a form that hides its origin", with("Origin", ""), http.StatusBadGateway, http.StatusForbidden},
		{"a rebinding name", with("Host", "evil.example:"+s.port), http.StatusMisdirectedRequest, http.StatusMisdirectedRequest},
		{"another name of loopback", with("Host", "localhost:"+s.port), http.StatusMisdirectedRequest, http.StatusMisdirectedRequest},
		{"a page of an earlier server", with("Host", "abc.localhost:"+s.port), http.StatusMisdirectedRequest, http.StatusMisdirectedRequest},
		{"who asks at the page with the button", map[string]string{"Authorization": "Bearer " + bearer, "Host": s.door, "Origin": "http://" + s.door}, http.StatusNotFound, http.StatusNotFound},
	} {
		if status, _, text := fetch(t, host, http.MethodGet, "/api/jobs", "", c.header); status != c.get {
			t.Errorf("%s reads with %d, want %d: %s", c.who, status, c.get, text)
		}
		if status, _, text := fetch(t, host, http.MethodPost, "/api/sessions/jupyter/start", "{}", c.header); status != c.post {
			t.Errorf("%s starts a session with %d, want %d: %s", c.who, status, c.post, text)
		}
	}
}

func TestEnterFromAForeignPage(t *testing.T) {
	_, link := serve(t)
	_, once, _ := strings.Cut(link, "#")
	body := `{"once":"` + once + `"}`
	for name, value := range map[string]string{"Origin": "http://localhost:8888", "Host": "evil.example"} {
		if status, _, _ := fetch(t, hostOf(link), http.MethodPost, enterPath, body, map[string]string{name: value}); status < 400 {
			t.Errorf("with %s %s: %d", name, value, status)
		}
	}
	if status, _ := enterAs(t, link); status != http.StatusOK {
		t.Errorf("the address was spent: %d", status)
	}
}

func TestGuardHeaders(t *testing.T) {
	s, link := serve(t)
	for _, path := range []string{hostOf(link) + "/", hostOf(link) + "/app.js", hostOf(link) + "/style.css", hostOf(link) + "/api/jobs", s.door + "/", s.door + "/style.css"} {
		host, path, _ := strings.Cut(path, "/")
		_, h, _ := fetch(t, host, http.MethodGet, "/"+path, "", nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s has a cookie, or lets other origins in: %v", path, h)
		}
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "script-src 'self'", "connect-src 'self'", "worker-src 'none'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy lacks %s, or allows too much: %s", part, policy)
		}
	}
}
