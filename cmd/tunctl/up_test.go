package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
	"tunctl/internal/term"
)

func TestPageNotOpened(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		code int
		says string // to the user, or as the error
	}{
		{"no browser", t.Context(), fmt.Errorf("%w: %w", desktop.ErrNoBrowser, desktop.ErrUnavailable), 0, "`tunctl open jupyter --print`"},
		{"no viewer", t.Context(), desktop.ErrUnavailable, 0, "open that address with yours"},
		{"a browser that never came", t.Context(), desktop.ErrNotOpened, exitFailed, "tunctl: hint: `tunctl open jupyter` tries again"},
		{"Ctrl-C", stopped, desktop.ErrNotOpened, exitInterrupted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said bytes.Buffer
			err := notOpened(tt.ctx, term.New(nil, nil, &said), "tunctl open jupyter", "vnc://localhost:5901", fmt.Errorf("%w: for some reason", tt.err))
			if code := exitCode(err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if err != nil {
				printError(term.New(nil, nil, &said), err)
			}
			if !strings.Contains(said.String(), tt.says) || tt.says == "" && said.Len() > 0 {
				t.Errorf("said %q, want %q", said.String(), tt.says)
			}
		})
	}
}

func TestUpAnnouncesBoard(t *testing.T) {
	for _, tt := range []struct {
		app, served string
		first       bool
	}{
		{"", "tensorboard", true},
		{"", "jupyter", false},
		{"tensorboard", "tensorboard", false},
	} {
		var said bytes.Buffer
		u := &up{invocation: &invocation{Terminal: term.New(nil, io.Discard, &said)}}
		u.announce(api.Session{Name: "nb", App: tt.app, Endpoint: &api.Endpoint{App: tt.served}, Job: &api.Job{ID: "7"}})
		first := strings.Contains(said.String(), "announced "+tt.served+" first, and may announce more: `tunctl status nb` lists all")
		if first != tt.first {
			t.Errorf("app = %q, the job serves %s: %q", tt.app, tt.served, said.String())
		}
	}
}

// fakeAgent is an agent with the events of a test.
type fakeAgent struct {
	paths  home.Paths
	events chan api.Session // to whoever watches

	shown   chan struct{} // if set, what is told after the first waits for it
	mu      sync.Mutex
	hangs   bool     // no up is answered
	watched string   // the waiter that watches
	asked   []string // the waiters of each up
	answers []api.Session
}

// serveAgent has a handler answer what is asked of the agent of a home.
func serveAgent(t *testing.T, p home.Paths, agent http.Handler) {
	t.Helper()
	dir := filepath.Dir(p.Socket)
	if err := home.MakePrivate(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a long one's folder is not in the home
	l, err := localsocket.Listen(t.Context(), p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: agent, ReadHeaderTimeout: patience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
}

// startFakeAgent starts an agent that answers an up with waitingFor and then sends these sessions,
// and answers a second up with broughtUp.
func startFakeAgent(t *testing.T, tells ...api.Session) *fakeAgent {
	t.Helper()
	a := &fakeAgent{paths: home.In(t.TempDir()), events: make(chan api.Session, len(tells)), answers: []api.Session{waitingFor, broughtUp}}
	mux := http.NewServeMux()
	status := api.Status{Version: api.Version, Agent: &api.Agent{PID: os.Getpid(), Version: version()}, Sessions: []api.Session{spooled}}
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(status) })
	mux.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.watched = r.URL.Query().Get("waiter")
		a.mu.Unlock()
		out, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
		_ = errors.Join(out.Encode(api.Event{Type: api.EventStatus, Status: &status}), flush())
		for {
			select {
			case s := <-a.events:
				_ = errors.Join(out.Encode(api.Event{Type: api.EventSession, Time: time.Now(), Session: &s}), flush())
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /v1/up", func(w http.ResponseWriter, r *http.Request) {
		if a.hangs {
			<-r.Context().Done()
			return
		}
		var req api.UpRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		a.mu.Lock()
		answer := a.answers[len(a.asked)]
		a.asked = append(a.asked, req.Waiter)
		a.mu.Unlock()
		_ = json.NewEncoder(w).Encode(api.UpResponse{Session: answer, At: time.Now()})
		next := tells
		tells = nil
		go func() { // an answer is sent when its handler returns
			for i, s := range next {
				if i > 0 && a.shown != nil {
					<-a.shown
				}
				a.events <- s
			}
		}()
	})
	serveAgent(t, a.paths, mux)
	return a
}

var (
	waitingFor = api.Session{Name: "jupyter", Host: "narval", State: api.SessionConnecting, MaySubmit: true}
	spooled    = api.Session{Name: "jupyter", Host: "narval", State: api.SessionStarting, Job: &api.Job{ID: "7", State: api.JobRunning}, Hint: api.HintSpooled}
	lapsed     = api.Session{Name: "jupyter", Host: "narval", State: api.SessionConnecting, Cause: "no route"}
	broughtUp  = api.Session{Name: "jupyter", Host: "narval", State: api.SessionReady, Job: &api.Job{ID: "7", State: api.JobRunning}}
)

func TestUpPermissionEnds(t *testing.T) {
	a := startFakeAgent(t, lapsed)
	var said bytes.Buffer
	u := &up{invocation: &invocation{Terminal: term.New(nil, io.Discard, &said), paths: a.paths, client: client.New(a.paths)}, name: "jupyter"}
	_, err := u.bringUp(t.Context())
	if code := exitCode(err); code != exitTimeout || !strings.Contains(err.Error()+hintOf(err), "no job was submitted, and none will be until the next") {
		t.Errorf("exit code %d, %v", code, err)
	}
	if len(a.asked) != 1 || a.asked[0] == "" || a.asked[0] != a.watched {
		t.Errorf("asked as %q, watching as %q", a.asked, a.watched)
	}
}

func TestUpTakenDown(t *testing.T) {
	down := api.Session{Name: "jupyter", State: api.SessionDown, Cause: "submitting ~/jupyter.sh"}
	if err := (&up{name: "jupyter"}).failure(down); err.Error() != "jupyter was taken down meanwhile" {
		t.Error(err)
	}
}

func TestUpPermissionEndsWhileSubmitting(t *testing.T) {
	submitting := api.Session{Name: "jupyter", State: api.SessionSubmitting, Cause: "submitting ~/jupyter.sh"}
	a := startFakeAgent(t, submitting)
	u := &up{invocation: &invocation{Terminal: term.New(nil, io.Discard, io.Discard), paths: a.paths, client: client.New(a.paths)}, name: "jupyter"}
	_, err := u.bringUp(t.Context())
	e, ok := errors.AsType[*api.Error](err)
	if !ok || strings.Contains(e.Message, "no job was submitted") || !strings.Contains(e.Hint, "the job may still be submitted") {
		t.Errorf("%v, hint %q", err, e.Hint)
	}
}

func TestUpSlowAgent(t *testing.T) {
	a := startFakeAgent(t)
	a.hangs = true
	u := &up{invocation: &invocation{Terminal: &term.Terminal{Out: io.Discard, Err: io.Discard}, paths: a.paths, client: client.New(a.paths)}, name: "jupyter", wait: 3 * time.Second}
	_, err := u.bringUp(t.Context())
	if exitCode(err) != exitTimeout || !strings.Contains(err.Error(), `session "jupyter" is still starting`) || !strings.Contains(hintOf(err), "ends job 7") {
		t.Error(err, hintOf(err))
	}
}

func TestUpRemains(t *testing.T) {
	queued := api.Session{Name: "jupyter", State: api.SessionQueued, Job: &api.Job{ID: "7", State: api.JobQueued}}
	submitting := api.Session{Name: "jupyter", State: api.SessionSubmitting, MaySubmit: true}
	reconnecting := api.Session{Name: "jupyter", State: api.SessionReconnecting, MaySubmit: true, Job: &api.Job{ID: "7", State: api.JobRunning}}
	left := api.Session{Name: "jupyter", State: api.SessionReady, Job: &api.Job{ID: "7", State: api.JobRunning}, Others: []api.Job{{ID: "8", State: api.JobRunning}}}
	const ends = "`tunctl down jupyter --cancel` ends "
	for _, tt := range []struct {
		last, now api.Session
		want      string
	}{
		{waitingFor, lapsed, "no job was submitted, and none will be until the next `tunctl up jupyter`"},
		{waitingFor, waitingFor, "the job may still be submitted"}, // another command waits
		{waitingFor, submitting, "the job may still be submitted"},
		{waitingFor, queued, ends + "job 7"},
		{submitting, left, ends + "job 7 and job 8"},
		{submitting, api.Session{Name: "jupyter", State: api.SessionFailed, Pending: true}, ends + "a job that may still appear"},
		{queued, queued, ends + "job 7"},
		{reconnecting, reconnecting, ends + "job 7"},
		{spooled, spooled, ends + "job 7"},
		{lapsed, lapsed, "it continues in the background"},
	} {
		var said bytes.Buffer
		u := &up{invocation: &invocation{Terminal: term.New(nil, io.Discard, &said)}, name: "jupyter"}
		err := u.timedOut(tt.last, tt.now)
		printError(u.Terminal, err)
		if !strings.Contains(said.String(), tt.want) || !strings.Contains(said.String(), tt.now.Hint) || exitCode(err) != exitTimeout {
			t.Errorf("%s, then %s: %q, want %q", tt.last.State, tt.now.State, said.String(), tt.want)
		}
	}
}
