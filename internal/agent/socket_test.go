package agent_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tunctl/internal/agent"
	"tunctl/internal/agent/socket"
	"tunctl/internal/client"
	"tunctl/internal/home"
)

// elsewhere are the same files for a process with another XDG_RUNTIME_DIR.
func (w *world) elsewhere() home.Paths {
	w.t.Helper()
	run, err := os.MkdirTemp("", "tunctl-")
	must(w.t, err)
	w.t.Cleanup(func() { _ = os.RemoveAll(run) })
	p := w.paths
	p.Socket = filepath.Join(run, "tunctl", "agent.sock")
	return p
}

func noLaunch(context.Context) (<-chan error, error) {
	return nil, errors.New("a second agent was launched")
}

func TestSocket(t *testing.T) {
	t.Parallel()
	t.Run("that is stale is replaced", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		l, err := net.Listen("unix", w.paths.Socket)
		must(t, err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		must(t, l.Close())
		w.start()
		if _, err := w.client.Status(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("refuses what a browser sends", func(t *testing.T) {
		w := newWorld(t)
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", w.paths.Socket)
			},
			DisableKeepAlives: true,
		}
		for name, change := range map[string]func(*http.Request){
			"another host": func(r *http.Request) { r.Host = "localhost:8888" },
			"an origin":    func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://tunctl/v1/status", nil)
			must(t, err)
			change(req)
			res, err := transport.RoundTrip(req)
			must(t, err)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", name, res.Status)
			}
		}
	})
	t.Run("is private", func(t *testing.T) {
		w := newWorld(t)
		for path, want := range map[string]os.FileMode{w.paths.Socket: 0o600, filepath.Dir(w.paths.Socket): 0o700} {
			info, err := os.Stat(path)
			must(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %o, want %o", path, got, want)
			}
		}
	})
	t.Run("is found from another runtime folder", func(t *testing.T) {
		w := newWorld(t)
		o := w.options()
		o.Paths = w.elsewhere()
		st, err := client.New(o.Paths).Ensure(t.Context(), noLaunch)
		if err != nil || st.Agent == nil || st.Agent.PID != os.Getpid() {
			t.Errorf("a command got %+v, %v", st.Agent, err)
		}
		second, err := agent.New(o)
		must(t, err)
		err = second.Serve(t.Context())
		if !errors.Is(err, socket.ErrRunning) || !strings.Contains(err.Error(), w.paths.Socket) {
			t.Errorf("a second agent says %v, which should name the socket %s", err, w.paths.Socket)
		}
		if err := client.New(o.Paths).Stop(t.Context()); err != nil {
			t.Errorf("stopping it from there: %v", err)
		}
	})
	t.Run("comes back after it was deleted, and no second agent starts", func(t *testing.T) {
		w := newWorld(t)
		for _, gone := range []string{"", w.paths.Socket, filepath.Dir(w.paths.Socket)} {
			must(t, os.RemoveAll(gone))
			second, err := agent.New(w.options())
			must(t, err)
			if err := second.Serve(t.Context()); !errors.Is(err, socket.ErrRunning) {
				t.Errorf("without %s a second agent says %v", gone, err)
			}
			must(t, os.RemoveAll(gone))
			if _, err := w.client.Ensure(t.Context(), noLaunch); err != nil {
				t.Errorf("without %s a command gets %v", gone, err)
			}
		}
	})
	t.Run("that cannot be where it should is elsewhere, and found", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.write(filepath.Dir(w.paths.Socket)+"/blocked", "a file where the folder should be")
		w.paths.Socket = filepath.Join(filepath.Dir(w.paths.Socket), "blocked", "agent.sock")
		w.client = client.New(w.paths)
		w.start()
		w.up()
	})
	t.Run("that can be nowhere is reported once", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		o := w.options()
		o.Paths.Socket = o.Paths.SpareSocket() // as on Windows
		w.write(filepath.Dir(o.Paths.Socket), "a file where the folder should be")
		blocked, err := agent.New(o)
		must(t, err)
		if err := blocked.Serve(t.Context()); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("the agent says %v, want one line", err)
		}
	})
	t.Run("of an agent that ends is waited for", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		first := w.stop
		stopped := make(chan struct{})
		go func() { defer close(stopped); first() }()
		for listening := true; listening; {
			conn, err := net.Dial("unix", w.paths.Socket)
			if listening = err == nil || errors.Is(err, syscall.EAGAIN); err == nil { // it may be behind with accepting
				_ = conn.Close()
			}
		}
		w.start() // while the first one ends
		<-stopped
		after := w.until("ready", ready)
		if after.Job.ID != before.Job.ID || after.Local != before.Local {
			t.Errorf("before %s at %s, after %s at %s", before.Job.ID, before.Local, after.Job.ID, after.Local)
		}
	})
	t.Run("of a killed agent keeps nobody from starting", func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		must(t, w.paths.SetRunning(home.Running{PID: 1, Socket: w.elsewhere().Socket}))
		if _, err := w.client.Status(t.Context()); !errors.Is(err, client.ErrNotRunning) {
			t.Errorf("err = %v, want ErrNotRunning", err)
		}
		w.start()
		r, err := w.paths.Running()
		if err != nil || r.PID != os.Getpid() || r.Socket != w.paths.Socket {
			t.Errorf("running: %+v, %v", r, err)
		}
	})
}
