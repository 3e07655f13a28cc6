package desktop

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"tunctl/internal/dev/must"
)

// ask makes one request to the link, without following where it leads.
func ask(t *testing.T, l *link, method, path, host string) (status int, header http.Header) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+l.port+path, nil)
	must.Do(t, err)
	if host != "" {
		req.Host = host
	}
	resp, err := transport.RoundTrip(req)
	must.Do(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

func testLink(t *testing.T) *link {
	t.Helper()
	l, err := newLink(t.Context(), secretPage)
	must.Do(t, err)
	t.Cleanup(l.close)
	return l
}

func TestLinkOnce(t *testing.T) {
	l := testLink(t)
	steps := []struct {
		what               string
		method, path, host string
		want               int
	}{
		{"a foreign Host", http.MethodGet, l.path, "evil.example:" + l.port, http.StatusMisdirectedRequest},
		{"a Host without its port", http.MethodGet, l.path, "127.0.0.1", http.StatusMisdirectedRequest},
		{"another path", http.MethodGet, "/", "", http.StatusNotFound},
		{"a preview", http.MethodHead, l.path, "", http.StatusMethodNotAllowed},
		{"the first use", http.MethodGet, l.path, "localhost:" + l.port, http.StatusSeeOther},
		{"the second use", http.MethodGet, l.path, "", http.StatusGone},
	}
	for _, s := range steps {
		status, header := ask(t, l, s.method, s.path, s.host)
		if status != s.want {
			t.Errorf("%s: got %d, want %d", s.what, status, s.want)
		}
		if got := header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", s.what, got)
		}
		if got := header.Get("Referrer-Policy"); got != "no-referrer" {
			t.Errorf("%s: Referrer-Policy is %q", s.what, got)
		}
		wantLocation := ""
		if s.want == http.StatusSeeOther {
			wantLocation = secretPage
		}
		if got := header.Get("Location"); got != wantLocation {
			t.Errorf("%s: Location is %q, want %q", s.what, got, wantLocation)
		}
	}
	select {
	case <-l.used:
	default:
		t.Error("the use was not told")
	}
}

func TestLinkStranger(t *testing.T) {
	l := testLink(t)
	unknown := httptest.NewRecorder() // a request of which nobody knows whose it is
	if l.ServeHTTP(unknown, httptest.NewRequestWithContext(t.Context(), http.MethodGet, l.URL(), nil)); unknown.Code != http.StatusForbidden {
		t.Errorf("a stranger got %d, want 403", unknown.Code)
	}
	if got, _ := ask(t, l, http.MethodGet, l.path, ""); got != http.StatusSeeOther {
		t.Errorf("the user got %d after a stranger's try, want 303", got)
	}
}
