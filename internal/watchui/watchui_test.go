//go:build unix

package watchui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
	"go.uber.org/goleak"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/dev/must"
	"tunctl/internal/dev/ptytest"
	"tunctl/internal/dev/wait"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
	"tunctl/internal/term"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeAgent answers as the agent does, and notes which streams are open.
type fakeAgent struct {
	looking  chan bool // a stream of use was opened, or closed
	waits    atomic.Bool
	requests atomic.Int64
	watches  atomic.Int64
	drop     chan struct{}      // ends an open stream
	ups      chan api.UpRequest // which are not answered
	stop     context.CancelFunc
	end      func() error // of the process
}

func newFakeAgent(t *testing.T) (*fakeAgent, *client.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "watchui") // the path of a socket must be short
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	paths := home.In(dir)
	must.Do(t, home.MakePrivate(filepath.Dir(paths.Socket)))
	l, err := localsocket.Listen(t.Context(), paths.Socket)
	must.Do(t, err)
	ctx, stop := context.WithCancel(context.Background())
	a := &fakeAgent{looking: make(chan bool, 10), drop: make(chan struct{}), ups: make(chan api.UpRequest, 1), stop: stop}
	stream := func(w http.ResponseWriter, r *http.Request, first any) {
		_ = json.NewEncoder(w).Encode(first)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		case <-a.drop:
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		a.requests.Add(1)
		_ = json.NewEncoder(w).Encode(three())
	})
	mux.HandleFunc("GET /v1/watch", func(w http.ResponseWriter, r *http.Request) {
		a.watches.Add(1)
		a.waits.Store(r.URL.Query().Get("waiter") == "me" && r.URL.Query().Get("answers") == "")
		stream(w, r, api.Event{Type: api.EventStatus})
	})
	mux.HandleFunc("GET /v1/usage", func(w http.ResponseWriter, r *http.Request) {
		a.looking <- true
		defer func() { a.looking <- false }()
		stream(w, r, api.Usage{Session: "jupyter", Time: noon, CPUPercent: percent(42)})
	})
	mux.HandleFunc("POST /v1/up", func(_ http.ResponseWriter, r *http.Request) {
		var req api.UpRequest
		_ = json.NewDecoder(r.Body).Decode(&req)
		a.ups <- req
		<-r.Context().Done()
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	a.end = server.Close
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		stop()
		_ = server.Close()
		<-done
	})
	return a, client.New(paths)
}

// await waits until a count of requests is reached.
func (a *fakeAgent) await(t *testing.T, count *atomic.Int64, n int64) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d requests", n), func() bool { return count.Load() >= n })
}

// look is the next change of who looks.
func (a *fakeAgent) look(t *testing.T) bool {
	t.Helper()
	return wait.For(t, "a stream of use is opened or closed", a.looking)
}

// terminal is the screen's, seen from outside.
type terminal struct {
	*ptytest.Terminal
	t *testing.T
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	x := &terminal{ptytest.NewTerminal(t), t}
	t.Setenv("NO_COLOR", "1")
	must.Do(t, pty.Setsize(x.TTY, &pty.Winsize{Rows: 24, Cols: 80}))
	return x
}

// run runs the screen; the returned function waits for its end.
func (x *terminal) run(ctx context.Context, cl *client.Client, o Options) (end func() error) {
	o.Status, o.Waiter = three(), "me"
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, term.New(x.TTY, x.TTY, x.TTY), cl, o) }()
	return func() error {
		x.t.Helper()
		return wait.For(x.t, "it ends", ended)
	}
}

func TestRunMeasuresWhatIsShown(t *testing.T) {
	a, cl := newFakeAgent(t)
	x := newTerminal(t)
	end := x.run(t.Context(), cl, Options{})
	x.Expect("jupyter")
	x.Type("3")
	if !a.look(t) {
		t.Error("nobody looks")
	}
	x.Expect("42 %")
	x.Type("2")
	if a.look(t) {
		t.Error("somebody still looks")
	}
	if !a.waits.Load() {
		t.Error("the agent does not know that somebody waits")
	}
	x.Type("3")
	a.look(t)
	x.Type("q")
	if err := end(); err != nil {
		t.Error(err)
	}
	if a.look(t) {
		t.Error("somebody looks after the end")
	}
	if len(a.looking) > 0 {
		t.Error("another stream was open")
	}
}

func TestRunWatchesAgain(t *testing.T) {
	a, cl := newFakeAgent(t)
	x := newTerminal(t)
	end := x.run(t.Context(), cl, Options{})
	x.Expect("jupyter")
	a.await(t, &a.requests, 3) // of the first event, and of more than a second
	a.drop <- struct{}{}
	a.await(t, &a.watches, 2)
	x.Type("q")
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestFollowLostAgent(t *testing.T) {
	a, cl := newFakeAgent(t)
	shown, lost := make(chan struct{}, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() {
		_ = Follow(ctx, cl, "", 0, Viewer{Show: func(api.Status) error { shown <- struct{}{}; return nil }, Lost: func() { close(lost) }})
	})
	<-shown
	before := a.requests.Load()
	a.drop <- struct{}{}
	a.await(t, &a.requests, before+1) // it still answers
	_ = a.end()
	wait.For(t, "somebody is told that the agent has stopped", lost)
}

func TestRunInterrupted(t *testing.T) {
	a, cl := newFakeAgent(t)
	x := newTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	end := x.run(ctx, cl, Options{})
	x.Expect("jupyter")
	x.Type("u")
	if req := <-a.ups; req.Session != "jupyter" || req.Waiter != "me" {
		t.Errorf("did %+v", req)
	}
	cancel()
	if err := end(); !errors.Is(err, ErrInterrupted) {
		t.Errorf("ended with %v", err)
	}
}

// slowKeys are those of a terminal whose reader, once armed, is stopped between the news of a key and the key.
type slowKeys struct {
	*os.File
	armed, taken     atomic.Bool
	stopped, proceed chan struct{}
	reading          sync.Mutex
}

func (s *slowKeys) Fd() uintptr {
	if s.armed.CompareAndSwap(true, false) {
		close(s.stopped)
		<-s.proceed
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.File.Fd()
}

func (s *slowKeys) Read(b []byte) (int, error) {
	s.taken.Store(true)
	return s.File.Read(b)
}

func TestRunLateReader(t *testing.T) {
	_, cl := newFakeAgent(t)
	x := newTerminal(t)
	keys := &slowKeys{File: x.TTY, stopped: make(chan struct{}), proceed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, term.New(keys, x.TTY, x.TTY), cl, Options{Status: three(), Waiter: "me"}) }()
	x.Expect("jupyter")
	keys.armed.Store(true)
	x.Type("x")
	wait.For(t, "the reader learns of a key", keys.stopped)
	cancel()
	if err := wait.For(t, "the screen ends", ended); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	close(keys.proceed)
	wait.Until(t, "the reader ends", func() bool {
		stacks := make([]byte, 1<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("TerminalReader).streamData"))
	})
	keys.reading.Lock() // for the race detector: the file is closed after its last use
	defer keys.reading.Unlock()
	if keys.taken.Load() {
		t.Error("the reader took a key after the end of the screen")
	}
}

// panicking is a model that panics in the view of hosts.
type panicking struct{ model }

func (p panicking) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	next, cmd := p.model.Update(msg)
	p.model, _ = next.(model)
	return p, cmd
}

func (p panicking) View() tea.View {
	if p.view == hostsView {
		panic("a mistake")
	}
	return p.model.View()
}

// TestRunPanic has a process of its own for the panic, which ends it.
func TestRunPanic(t *testing.T) {
	const child = "TUNCTL_TEST_PANIC"
	if os.Getenv(child) != "" {
		_, cl := newFakeAgent(t)
		f := &feed{client: cl}
		_, err := f.run(t.Context(), term.New(os.Stdin, os.Stdout, os.Stderr), panicking{newModel(Options{Status: three()}, f, false, time.Now())})
		fmt.Println("ended:", err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(3)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "TERM=xterm")
	k := ptytest.Start(t, cmd)
	k.ExpectScreen("jupyter")
	k.Type("4")
	k.Expect("\x1b[?1049l")
	k.Expect("\x1b[?25h")
	k.Expect("a mistake")
	k.Expect("ended: program was killed: program experienced a panic")
	k.Type("typed\n")
	k.Expect("typed\r\n") // it is echoed again
	k.WantEnd(3)
}
