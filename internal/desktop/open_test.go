package desktop

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
	"reflect"
	"runtime"
	"strings"
	"testing"

	"tunctl/internal/dev/must"
	"tunctl/internal/dev/testprogram"
	"tunctl/internal/dev/wait"
)

const secretPage = "http://localhost:8888/lab?token=s3cr3t-t0ken"

// standIn is an environment in which $BROWSER is this test binary.
func standIn(t *testing.T, role string) (env environment, reportPath string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("BROWSER is a colon-separated list, which a Windows path breaks")
	}
	self, err := os.Executable()
	must.Do(t, err)
	reportPath = filepath.Join(t.TempDir(), "report.json")
	env = environment{"BROWSER": self, "STAND_IN": role, "STAND_IN_REPORT": reportPath, "PATH": "", "GORACE": "atexit_sleep_ms=0"}
	setenv(t, env)
	return env, reportPath
}

func TestOpenPage(t *testing.T) {
	_, path := standIn(t, "browser")
	// The stand-in reports after its answer, so wait for its end as well: it
	// holds a connection until then.
	finish := linger(t)
	must.Do(t, Open(t.Context(), secretPage))
	finish()
	seen := reported(t, path)
	if seen["location"] != secretPage || seen["status"] != float64(303) {
		t.Errorf("the browser was led to %v with status %v, want %s with 303", seen["location"], seen["status"], secretPage)
	}
	for _, where := range []string{"args", "cmdline"} {
		if strings.Contains(fmt.Sprint(seen[where]), "s3cr3t") {
			t.Errorf("the token shows in the browser's %s: %v", where, seen[where])
		}
	}
}

// linger makes the stand-in wait until finish, which returns once it reported.
func linger(t *testing.T) (finish func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv("STAND_IN_LINGER", listener.Addr().String())
	return func() {
		conn, err := listener.Accept()
		must.Do(t, err)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.ReadAll(conn) // until the stand-in is gone
		_ = conn.Close()
	}
}

func TestOpenPageBrowserStays(t *testing.T) {
	standIn(t, "browser")
	finish := linger(t)
	must.Do(t, Open(t.Context(), secretPage))
	finish() // only now may the browser end
}

func TestOpenPageNextBrowser(t *testing.T) {
	env, path := standIn(t, "browser")
	script := filepath.Join(t.TempDir(), "broken")
	must.Do(t, testprogram.Write(script, []byte("#!/bin/sh\nexit 7\n")))
	t.Setenv("BROWSER", "/nonexistent/browser:"+script+":"+env["BROWSER"]+" --tab %s")
	finish := linger(t)
	must.Do(t, Open(t.Context(), secretPage))
	finish()
	if args := reported(t, path)["args"].([]any); args[1] != "--tab" {
		t.Errorf("the chosen browser was started as %q, want its --tab kept", args)
	}
}

func TestOpenPageAllFail(t *testing.T) {
	standIn(t, "failing")
	err := Open(t.Context(), secretPage)
	if !errors.Is(err, ErrNoBrowser) {
		t.Errorf("got %v, want ErrNoBrowser", err)
	}
	if strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("the error holds the token: %v", err)
	}
}

func TestOpenPageNotRequested(t *testing.T) {
	_, report := standIn(t, "idle")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan error, 1)
	go func() { opened <- Open(ctx, secretPage) }()
	wait.Until(t, "the browser ran", func() bool {
		_, err := os.Stat(report)
		return err == nil
	})
	cancel()
	if err := <-opened; !errors.Is(err, ErrNotOpened) {
		t.Errorf("got %v, want ErrNotOpened", err)
	}
}

func TestOpenPageWithoutDisplay(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("this system always has a browser")
	}
	setenv(t, environment{"PATH": os.Getenv("PATH")})
	err := Open(t.Context(), secretPage)
	if !errors.Is(err, ErrNoBrowser) {
		t.Errorf("got %v, want ErrNoBrowser", err)
	}
}

func TestOpenPageScheme(t *testing.T) {
	setenv(t, environment{"BROWSER": "true"})
	for _, bad := range []string{"", "file:///etc/passwd?token=s3cr3t", "javascript:alert(1)", "localhost:8888", "http://"} {
		err := Open(t.Context(), bad)
		if err == nil {
			t.Errorf("%q was opened", bad)
		} else if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("the error holds the token: %v", err)
		}
	}
}

func TestFileURL(t *testing.T) {
	for path, want := range map[string]string{
		"/run/user/1/a b/help.html":   "file:///run/user/1/a%20b/help.html",
		"C:/Users/ann/tmp/help.html":  "file:///C:/Users/ann/tmp/help.html",
		"//server/home/ann/help.html": "file:////server/home/ann/help.html",
	} {
		if got := fileURL(path); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}

func TestOpenLink(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("xdg-open is asked on Linux")
	}
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	script := "#!/bin/sh\nprintf '%s' \"$1\" >" + seen + ".new && mv " + seen + ".new " + seen + "\n"
	must.Do(t, testprogram.Write(filepath.Join(dir, "xdg-open"), []byte(script)))
	setenv(t, environment{"DISPLAY": ":0", "PATH": dir + ":/usr/bin:/bin"})
	err := Open(t.Context(), "vnc://localhost:5901/")
	must.Do(t, err)
	var got []byte
	wait.Until(t, "xdg-open ran", func() bool { // Open need not wait for its end
		got, err = os.ReadFile(seen)
		return err == nil
	})
	if string(got) != "vnc://localhost:5901/" {
		t.Errorf("xdg-open was given %q", got)
	}
}

func TestOpenLinkSecret(t *testing.T) {
	setenv(t, environment{"DISPLAY": ":0"})
	for _, link := range []string{"vnc://ann:s3cr3t@localhost:5901/", "vnc://localhost:5901/?token=s3cr3t", "localhost"} {
		err := Open(t.Context(), link)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("Open(%q): %v", link, err)
		}
	}
}

func TestOpenLinkWithoutDesktop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems always have a desktop")
	}
	setenv(t, nil)
	if err := Open(t.Context(), "vnc://localhost:5901/"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestBrowsers(t *testing.T) {
	const url = "http://127.0.0.1:1/x"
	tests := []struct {
		name string
		goos string
		env  environment
		want []string // the first; nil: none at all
	}{
		{"a desktop", "linux", environment{"DISPLAY": ":0"}, []string{"xdg-open", url}},
		{"wayland", "linux", environment{"WAYLAND_DISPLAY": "wayland-0"}, []string{"xdg-open", url}},
		{"headless", "linux", environment{}, nil},
		{"a chosen one", "linux", environment{"BROWSER": "w3m"}, []string{"w3m", url}},
		{"a chosen one with a place for the address", "linux", environment{"BROWSER": "::links -g %s -x"}, []string{"links", "-g", url, "-x"}},
		{"WSL", "linux", environment{"WSL_DISTRO_NAME": "Debian", "DISPLAY": ":0"}, []string{"wslview", url}},
		{"WSL with a chosen one", "linux", environment{"WSL_INTEROP": "/run/x", "BROWSER": "b"}, []string{"b", url}},
		{"macOS", "darwin", environment{}, []string{"open", url}},
		{"Windows", "windows", environment{}, []string{"rundll32.exe", "url.dll,FileProtocolHandler", url}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setenv(t, tt.env)
			var got []string
			if list := browsers(tt.goos, url); len(list) > 0 {
				got = list[0]
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

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
