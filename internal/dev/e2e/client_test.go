package e2e

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
)

// TestClientAddress uses a notebook as VS Code, PyCharm and a local JupyterLab do: by one address with
// the local token, in two jobs with a token each.
func TestClientAddress(t *testing.T) {
	real.Need(t, "ssh", "slurm", "jupyter")
	t.Parallel()
	l := newLaptop(t, notebookConfig)
	client := &http.Client{Timeout: patience} // which keeps its connections
	var address, last string
	for range 2 {
		l.run("up", "--no-open")
		_, token := l.page()
		if token == last {
			t.Fatal("both jobs have one token")
		}
		last = token
		out, _ := l.run("open", "jupyter", "--client")
		if address == "" {
			address = out
		}
		if out != address {
			t.Errorf("the address was %s and is %s", address, out)
		}
		base, local := clientAddress(t, address)
		for _, path := range []string{"api/kernelspecs", "api/sessions", "api/contents"} {
			asksInEachWay(t, client, base.JoinPath(path), local)
		}
		kernelRuns(t, base, local) // its websocket has the token in the query
		kernelConnects(t, base, local)

		s := l.status()
		l.lab.Cancel(s.Job.ID)
		l.until("ended", is(api.SessionEnded))
	}
}

// clientAddress is the base address that a client is given, and its token.
func clientAddress(t *testing.T, address string) (*url.URL, string) {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	token := u.Query().Get("token")
	u.RawQuery = ""
	return u, token
}

// asksInEachWay sends the token in the header and in the query, over one connection.
func asksInEachWay(t *testing.T, client *http.Client, u *url.URL, token string) {
	t.Helper()
	for _, way := range []string{"token", "query"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if way == "query" {
			req.URL.RawQuery = "token=" + token
		} else {
			req.Header.Set("Authorization", way+" "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s with the token as %s: %s", u.Path, way, res.Status)
		}
	}
}

// kernelConnects opens a kernel's websocket with the token in the header, as Jupyter's gateway client
// does, and with an earlier token.
func kernelConnects(t *testing.T, base *url.URL, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	u := base.JoinPath("api/kernels", startKernel(ctx, t, base, token), "channels")
	u.Scheme = "ws"
	for _, sent := range []string{token, token[:len(token)-1]} {
		conn, res, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"token " + sent}}}) //nolint:bodyclose // the library closes it
		if conn != nil {
			_ = conn.CloseNow()
		}
		if right := sent == token; right != (err == nil) || !right && (res == nil || res.StatusCode != http.StatusForbidden) {
			t.Errorf("a websocket with the token in the header, right %v: %v", right, err)
		}
	}
}
