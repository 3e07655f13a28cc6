package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/agent"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/socket"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/wait"
	"tunctl/internal/home"
	"tunctl/internal/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none is meant to take it.
const patience = wait.Limit

// world is an agent in this process, with a practice cluster.
type world struct {
	t       testing.TB
	paths   home.Paths
	client  *client.Client
	cluster *lab.Cluster
	agent   *agent.Agent
	limits  func(*session.Limits) // changes the practice limits; may be nil
	stop    func()
}

// config goes without a relay inside the job, which costs each test half a second.
const config = `
[host.practice]
resume = false
[session.jupyter]
host   = "practice"
submit = "~/jupyter.sh"
`

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOf(t, lab.Slurm)
}

func newWorldOf(t testing.TB, dialect string) *world {
	t.Helper()
	return newWorldWith(t, lab.Options{Dialect: dialect, QueueFor: 50 * time.Millisecond})
}

func newWorldWith(t testing.TB, o lab.Options) *world {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	dir := t.TempDir()
	o.Dir = filepath.Join(dir, "cluster")
	cluster, err := lab.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	// A test's own folder has too long a name for a socket.
	run, err := os.MkdirTemp("", "tunctl-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	paths := home.Paths{
		Config: filepath.Join(dir, "config.toml"), State: filepath.Join(dir, "state"),
		Socket: filepath.Join(run, "agent.sock"), Moved: true,
	}
	w := &world{t: t, paths: paths, client: client.New(paths), cluster: cluster}
	w.write(filepath.Join(cluster.Home(), "jupyter.sh"), lab.JobScript(cluster.Dialect()))
	w.write(paths.Config, config)
	w.start()
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) options() agent.Options {
	limits := session.PracticeLimits()
	if w.limits != nil {
		w.limits(&limits)
	}
	return agent.Options{Paths: w.paths, Version: "test", SSHConfig: w.cluster.SSHConfig(), Limits: limits, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil))}
}

// start runs an agent until the test is over or stop is called.
func (w *world) start() {
	w.t.Helper()
	a, err := agent.New(w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-served; err != nil {
			w.t.Errorf("agent: %v", err)
		}
		served <- nil
	}
	w.t.Cleanup(func() { w.stop() })
	if _, err := w.client.Ensure(ctx, func(context.Context) (<-chan error, error) { return nil, nil }); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for the session to be as wanted.
func (w *world) until(what string, want func(api.Session) bool) api.Session {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last api.Session
	seen := false
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		switch {
		case seen:
			return
		case e.Status != nil:
			last, _ = e.Status.Session("jupyter")
		case e.Session != nil:
			last = *e.Session
		}
		if want(last) {
			seen = true
			cancel()
		}
	})
	if !seen {
		w.t.Fatalf("the session was never %s; last: %+v", what, last)
	}
	return last
}

func (w *world) up() api.Session {
	w.t.Helper()
	if _, err := w.client.Up(w.t.Context(), api.UpRequest{Session: "jupyter"}); err != nil {
		w.t.Fatal(err)
	}
	return w.until("ready", ready)
}

func ready(s api.Session) bool { return s.State == api.SessionReady }

// fetch gets the session's page as a browser would.
func (w *world) fetch() int {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	if err != nil {
		w.t.Fatal(err)
	}
	browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := browser.Get(page.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

func TestALostLinkComesBackAtTheSameAddress(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if code := w.fetch(); code != http.StatusOK {
		t.Fatalf("the page answers %d", code)
	}
	w.cluster.DropAll()
	if code := w.fetch(); code != http.StatusOK { // it waits for the link
		t.Errorf("the page answers %d after the link came back", code)
	}
	after := w.until("ready", ready)
	if after.Local != before.Local || after.Job.ID != before.Job.ID {
		t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
	}
}

func TestAFrozenHostIsFoundOutAndOutlived(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.cluster.Pause()
	w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
	w.cluster.Resume()
	w.until("ready", ready)
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
}

func TestARequeuedJobIsFollowedToItsNewNode(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	if err := w.cluster.Requeue(before.Job.ID); err != nil {
		t.Fatal(err)
	}
	after := w.until("ready elsewhere", func(s api.Session) bool { return ready(s) && s.Job.Node != before.Job.Node })
	if after.Local != before.Local {
		t.Errorf("the local address moved from %s to %s", before.Local, after.Local)
	}
	if after.Endpoint.Host != after.Job.Node {
		t.Errorf("the forward goes to %s, the job is on %s", after.Endpoint.Host, after.Job.Node)
	}
	if code := w.fetch(); code != http.StatusOK {
		t.Errorf("the page answers %d", code)
	}
}

func TestANewAgentAdoptsAndSubmitsNothing(t *testing.T) {
	w := newWorld(t)
	before := w.up()
	w.stop()
	w.start()
	after := w.until("ready", ready)
	if after.Job.ID != before.Job.ID || after.Local != before.Local {
		t.Errorf("before %s at %s, after %s at %s", before.Job.ID, before.Local, after.Job.ID, after.Local)
	}
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
	w.stop()
	if err := w.cluster.KillJob(before.Job.ID); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.until("ended", func(s api.Session) bool { return s.State == api.SessionEnded })
	if n := len(w.cluster.Jobs()); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
}

func TestASecondAgentFindsTheFirst(t *testing.T) {
	w := newWorld(t)
	second, err := agent.New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Serve(t.Context()); !errors.Is(err, socket.ErrRunning) {
		t.Errorf("err = %v, want ErrRunning", err)
	}
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Errorf("the first agent no longer answers: %v", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.stop()
	l, err := net.Listen("unix", w.paths.Socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if _, err := w.client.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatABrowserSendsIsRefused(t *testing.T) {
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
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

func TestTheSocketIsPrivate(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]os.FileMode{w.paths.Socket: 0o600, filepath.Dir(w.paths.Socket): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestABrokenConfigLeavesTheLastGoodOne(t *testing.T) {
	w := newWorld(t)
	w.write(w.paths.Config, "[session.jupyter]\nhost = \"practice\"\nlocall = 1\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var problem *api.Problem
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(api.Event) { // it ends by our cancel
		if st, err := w.client.Status(ctx); err == nil && st.Config != nil {
			problem = st.Config
			cancel()
		}
	})
	if problem == nil || !strings.Contains(problem.Message, "locall") {
		t.Fatalf("problem = %+v", problem)
	}
	st, err := w.client.Status(t.Context())
	if _, listed := st.Session("jupyter"); err != nil || !listed {
		t.Errorf("%+v, %v", st.Sessions, err)
	}
	if _, err := w.client.Up(t.Context(), api.UpRequest{Session: "jupyter"}); err == nil || !strings.Contains(err.Error(), "config.toml:3:1: ") {
		t.Errorf("up: %v", err)
	}
	w.write(w.paths.Config, config)
	w.up()
}

func TestTheWorldIsToldOfNoToken(t *testing.T) {
	w := newWorld(t)
	w.up()
	page, err := w.client.Page(t.Context(), "jupyter")
	if err != nil {
		t.Fatal(err)
	}
	_, token, ok := strings.Cut(page.URL, "token=")
	if !ok {
		t.Fatalf("the page's address has no token: %s", page.URL)
	}
	state, err := os.ReadFile(w.paths.StateFile())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(state), token) {
		t.Error("the state file has the token")
	}
	var log strings.Builder
	if err := w.client.Log(t.Context(), api.LogQuery{Session: "jupyter"}, func(c api.LogChunk) { log.WriteString(c.Text) }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), token) || !strings.Contains(log.String(), "•••") {
		t.Errorf("the log as shown:\n%s", log.String())
	}
}
