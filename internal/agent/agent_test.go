package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tunctl/internal/agent"
	"tunctl/internal/agent/session"
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
	log     slog.Handler
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isCode checks the code of an error, and some of its message and hint.
func isCode(t testing.TB, err error, code api.Code, words string) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != code || !strings.Contains(e.Message+"\n"+e.Hint, words) {
		t.Errorf("err = %+v, want %s with %q", err, code, words)
	}
}

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
	must(t, err)
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	// A test's own folder has too long a name for a socket.
	run, err := os.MkdirTemp("", "tunctl-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	paths := home.Paths{
		Config: filepath.Join(dir, "config.toml"), State: filepath.Join(dir, "state"),
		Socket: filepath.Join(run, "agent.sock"), Moved: true,
	}
	w := &world{t: t, paths: paths, client: client.New(paths), cluster: cluster, log: slog.NewTextHandler(t.Output(), nil)}
	w.script(lab.JobScript(cluster.Dialect()))
	w.write(paths.Config, config)
	w.start()
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// script writes the session's job script.
func (w *world) script(text string) {
	w.t.Helper()
	w.write(filepath.Join(w.cluster.Home(), "jupyter.sh"), text)
}

func (w *world) options() agent.Options {
	limits := session.PracticeLimits()
	if w.limits != nil {
		w.limits(&limits)
	}
	return agent.Options{Paths: w.paths, Version: "test", SSHConfig: w.cluster.SSHConfig(), Limits: limits, Log: slog.New(w.log)}
}

// start runs an agent until the test is over or stop is called.
func (w *world) start() {
	w.t.Helper()
	a, err := agent.New(w.options())
	must(w.t, err)
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
	_, err = w.client.Ensure(ctx, func(context.Context) (<-chan error, error) { return nil, nil })
	must(w.t, err)
}

// restart has the agent start anew, with another config and limits.
func (w *world) restart(config string, limits func(*session.Limits)) {
	w.t.Helper()
	w.stop()
	w.write(w.paths.Config, config)
	w.limits = limits
	w.start()
}

// watch shows see each event until it returns true, and reports whether it did.
func (w *world) watch(see func(api.Event) bool) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	seen := false
	_ = w.client.Watch(ctx, api.AnswersNone, "", func(e api.Event) { // it ends by our cancel
		if seen = seen || see(e); seen {
			cancel()
		}
	})
	return seen
}

// until waits for the session to be as wanted.
func (w *world) until(what string, want func(api.Session) bool) api.Session {
	w.t.Helper()
	var last api.Session
	seen := w.watch(func(e api.Event) bool {
		switch {
		case e.Status != nil:
			if i := slices.IndexFunc(e.Status.Sessions, want); i >= 0 { // of any session, as of an event
				last = e.Status.Sessions[i]
				return true
			}
			last, _ = e.Status.Session("jupyter")
			return false
		case e.Session != nil:
			last = *e.Session
		}
		return want(last)
	})
	if !seen {
		w.t.Fatalf("the session was never %s; last: %+v", what, last)
	}
	return last
}

func (w *world) up() api.Session {
	w.t.Helper()
	w.bringUp()
	return w.until("ready", ready)
}

// bringUp is an up that does not wait.
func (w *world) bringUp() {
	w.t.Helper()
	must(w.t, w.upWith(api.UpRequest{Session: "jupyter"}))
}

func (w *world) upWith(req api.UpRequest) error {
	_, err := w.client.Up(w.t.Context(), req)
	return err
}

func (w *world) down(cancel bool) {
	w.t.Helper()
	_, err := w.client.Down(w.t.Context(), api.DownRequest{Session: "jupyter", Cancel: cancel})
	must(w.t, err)
}

func (w *world) login(host string) {
	w.t.Helper()
	_, err := w.client.Login(w.t.Context(), host)
	must(w.t, err)
}

func (w *world) status() api.Status {
	w.t.Helper()
	st, err := w.client.Status(w.t.Context())
	must(w.t, err)
	return st
}

func (w *world) session() api.Session {
	w.t.Helper()
	st := w.status()
	s, _ := st.Session("jupyter")
	return s
}

// hasJobs checks how many jobs were submitted.
func (w *world) hasJobs(n int) {
	w.t.Helper()
	if jobs := w.cluster.Jobs(); len(jobs) != n {
		w.t.Errorf("%d jobs were submitted, want %d: %s", len(jobs), n, states(jobs))
	}
}

func states(jobs []lab.Job) string {
	var list []string
	for _, j := range jobs {
		list = append(list, j.State)
	}
	return strings.Join(list, " ")
}

func failed(s api.Session) bool { return s.State == api.SessionFailed }
func ended(s api.Session) bool  { return s.State == api.SessionEnded }
func ready(s api.Session) bool  { return s.State == api.SessionReady }

// opens checks that the session's page opens in a browser.
func (w *world) opens() {
	w.t.Helper()
	page, err := w.client.Page(w.t.Context(), "jupyter")
	must(w.t, err)
	browser := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := browser.Get(page.URL)
	must(w.t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Errorf("the page answers %d", res.StatusCode)
	}
}

func TestConnection(t *testing.T) {
	t.Parallel()
	t.Run("is back at the same address after a loss", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		w.opens()
		w.cluster.DropAll()
		w.opens() // it waits for the link
		after := w.until("ready", ready)
		if after.Local != before.Local || after.Job.ID != before.Job.ID {
			t.Errorf("before %s job %s, after %s job %s", before.Local, before.Job.ID, after.Local, after.Job.ID)
		}
	})
	t.Run("is replaced when the host freezes", func(t *testing.T) {
		w := newWorld(t)
		w.up()
		w.cluster.Pause()
		w.until("reconnecting", func(s api.Session) bool { return s.State == api.SessionReconnecting })
		w.cluster.Resume()
		w.until("ready", ready)
		w.opens()
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	t.Run("adopts the job and submits nothing", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		w.stop()
		w.start()
		after := w.until("ready", ready)
		if after.Job.ID != before.Job.ID || after.Local != before.Local {
			t.Errorf("before %s at %s, after %s at %s", before.Job.ID, before.Local, after.Job.ID, after.Local)
		}
		w.hasJobs(1)
		w.stop()
		must(t, w.cluster.KillJob(before.Job.ID))
		w.start()
		w.until("ended", ended)
		w.hasJobs(1)
	})
	t.Run("opens the port before the agent answers or connects", func(t *testing.T) {
		w := newWorld(t)
		before := w.up()
		must(t, w.cluster.Refuse(true)) // no login for now
		w.stop()
		w.start()
		conn, err := net.Dial("tcp", before.Local) // at once, without another try
		must(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "GET /api HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", before.Local)
		must(t, err)
		w.until("reconnecting", func(s api.Session) bool {
			return s.State == api.SessionReconnecting && s.Local == before.Local
		})
		must(t, w.cluster.Refuse(false))
		w.until("ready", ready)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil) // it waited, as after a lost connection
		must(t, err)
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			t.Errorf("the page answers %d", res.StatusCode)
		}
	})
}

func TestToken(t *testing.T) {
	w := newWorld(t)
	w.up()
	page, err := w.client.Page(t.Context(), "jupyter")
	must(t, err)
	_, token, ok := strings.Cut(page.URL, "token=")
	if !ok {
		t.Fatalf("the page's address has no token: %s", page.URL)
	}
	state, err := os.ReadFile(w.paths.StateFile())
	must(t, err)
	if strings.Contains(string(state), token) {
		t.Error("the state file has the token")
	}
	var log strings.Builder
	must(t, w.client.Log(t.Context(), api.LogQuery{Session: "jupyter"}, func(c api.LogChunk) { log.WriteString(c.Text) }))
	if strings.Contains(log.String(), token) || !strings.Contains(log.String(), "•••") {
		t.Errorf("the log as shown:\n%s", log.String())
	}
}
