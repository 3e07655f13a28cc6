package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"tunctl/internal/client"
	"tunctl/internal/home"
)

// serve starts a server whose agent is not running, and returns it with an address of its
// page.
func serve(t *testing.T) (*Server, string) {
	t.Helper()
	return serveWith(t, Options{Client: client.New(home.In(t.TempDir()))})
}

// serveWith is serve with other options.
func serveWith(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, s.Link()
}

// fetch sends a request as a page of the server would, but for the headers in other.
func fetch(t *testing.T, s *Server, method, path, body string, other map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		req.Header.Set("Origin", "http://"+s.host)
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
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// enterAs exchanges the one-time value of an address.
func enterAs(t *testing.T, s *Server, link string) (int, string) {
	t.Helper()
	_, once, _ := strings.Cut(link, "#")
	body, err := json.Marshal(map[string]string{"once": once})
	if err != nil {
		t.Fatal(err)
	}
	status, _, text := fetch(t, s, http.MethodPost, enterPath, string(body), nil)
	var res struct{ Bearer string }
	if status == http.StatusOK {
		if err := json.NewDecoder(bytes.NewBufferString(text)).Decode(&res); err != nil {
			t.Fatal(err)
		}
	}
	return status, res.Bearer
}

func TestAnAddressWorksOnce(t *testing.T) {
	s, link := serve(t)
	status, bearer := enterAs(t, s, link)
	if status != http.StatusOK || bearer == "" {
		t.Fatalf("the first use: %d, %q", status, bearer)
	}
	if strings.Contains(link, bearer) {
		t.Error("the address has the bearer value itself")
	}
	if status, _ := enterAs(t, s, link); status != http.StatusGone {
		t.Errorf("the second use: %d", status)
	}
	if status, _ := enterAs(t, s, "#AAAAAAAAAAAAAAAAAAAAAAAAAA"); status != http.StatusGone {
		t.Errorf("a guess: %d", status)
	}
	if _, again := enterAs(t, s, s.Link()); again == "" || again == bearer {
		t.Errorf("a second page has the bearer value %q", again)
	}
}

func TestOnlyAPageOpenedByTunctlGetsDataOrActs(t *testing.T) {
	s, link := serve(t)
	_, bearer := enterAs(t, s, link)
	own := map[string]string{"Authorization": "Bearer " + bearer}
	with := func(name, value string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + bearer, name: value}
	}
	_, port, _ := strings.Cut(s.host, ":")
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
		{"a foreign origin", with("Origin", "https://example.org"), http.StatusForbidden, http.StatusForbidden},
		{"a page without an origin", with("Origin", "null"), http.StatusForbidden, http.StatusForbidden},
		{"a notebook on another port", with("Origin", "http://127.0.0.1:8888"), http.StatusForbidden, http.StatusForbidden},
		{"an image of a notebook", with("Sec-Fetch-Site", "same-site"), http.StatusForbidden, http.StatusForbidden},
		{"a form that hides its origin", with("Origin", ""), http.StatusBadGateway, http.StatusForbidden},
		{"a rebinding name", with("Host", "evil.example:"+port), http.StatusMisdirectedRequest, http.StatusMisdirectedRequest},
		{"another name of loopback", with("Host", "localhost:"+port), http.StatusMisdirectedRequest, http.StatusMisdirectedRequest},
	} {
		if status, _, text := fetch(t, s, http.MethodGet, "/api/jobs", "", c.header); status != c.get {
			t.Errorf("%s reads with %d, want %d: %s", c.who, status, c.get, text)
		}
		if status, _, text := fetch(t, s, http.MethodPost, "/api/sessions/jupyter/start", "{}", c.header); status != c.post {
			t.Errorf("%s starts a session with %d, want %d: %s", c.who, status, c.post, text)
		}
	}
}

func TestAForeignPageDoesNotSpendAnAddress(t *testing.T) {
	s, link := serve(t)
	_, once, _ := strings.Cut(link, "#")
	body := `{"once":"` + once + `"}`
	for name, value := range map[string]string{"Origin": "http://localhost:8888", "Host": "evil.example"} {
		if status, _, _ := fetch(t, s, http.MethodPost, enterPath, body, map[string]string{name: value}); status < 400 {
			t.Errorf("with %s %s: %d", name, value, status)
		}
	}
	if status, _ := enterAs(t, s, link); status != http.StatusOK {
		t.Errorf("the address was spent: %d", status)
	}
}

func TestEveryResponseHasTheStrictHeaders(t *testing.T) {
	s, _ := serve(t)
	for _, path := range []string{"/", "/app.js", "/style.css", "/api/jobs"} {
		_, h, _ := fetch(t, s, http.MethodGet, path, "", nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
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
