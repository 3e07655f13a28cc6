package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

const (
	maxBody       = 1 << 20
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second // for one event to a subscriber
)

// serveAPI serves the local API on l until ctx ends, then lets requests finish within
// the drain time.
func (a *Agent) serveAPI(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           guard(a.withConfig(a.routes())),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       2 * headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 16,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.limits.Drain)
	defer cancel()
	err := srv.Shutdown(drain)
	if err != nil {
		err = srv.Close()
	}
	<-served
	return err
}

func (a *Agent) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(string(api.CallWatch), a.handleWatch)
	mux.HandleFunc(string(api.CallUsage), a.handleUsage)
	mux.HandleFunc(string(api.CallPreview), a.handlePreview)
	mux.HandleFunc(string(api.CallLog), a.handleLog)
	mux.HandleFunc(string(api.CallJobLog), a.handleLog)
	mux.HandleFunc(string(api.CallStream), a.handleStream)
	handle(mux, api.CallUp, a.up)
	handle(mux, api.CallDown, a.handleDown)
	handle(mux, api.CallAssistantUp, a.handleAssistantUp)
	handle(mux, api.CallAssistantDown, a.handleAssistantDown)
	handle(mux, api.CallForward, a.handleForward)
	handle(mux, api.CallExtend, a.handleExtend)
	handle(mux, api.CallCheck, a.handleCheck)
	handle(mux, api.CallRefresh, a.handleRefresh)
	handle(mux, api.CallReload, func(context.Context, api.None) (api.None, error) { a.hosts.Reload(); return api.None{}, nil }) // the ssh config has changed
	handle(mux, api.CallAttach, a.handleAttach)
	handle(mux, api.CallQuota, a.hosts.Quota)
	handle(mux, api.CallLogin, a.handleLogin)
	handle(mux, api.CallLogout, func(_ context.Context, req api.LoginRequest) (api.Host, error) { return a.hosts.Logout(req.Host) })
	handle(mux, api.CallHistory, a.handleHistory)
	handle(mux, api.CallStatus, func(context.Context, api.None) (api.Status, error) { return a.Status(), nil })
	handle(mux, api.CallBalances, func(context.Context, api.None) ([]api.HostBalances, error) { return a.store.Balances(), nil })
	handle(mux, api.CallStop, func(context.Context, api.None) (api.None, error) { a.stop(); return api.None{}, nil })
	handleAt(mux, api.CallOpen, a.handleOpen)
	handleAt(mux, api.CallOpenEndpoint, a.handleOpen)
	handleAt(mux, api.CallChoices, a.handleChoices)
	handleAt(mux, api.CallAnswer, a.handleAnswer)
	handleAt(mux, api.CallScheduler, func(r *http.Request, _ api.None) (api.SchedulerResponse, error) {
		name, err := a.hosts.Scheduler(r.Context(), r.PathValue("host"))
		return api.SchedulerResponse{Scheduler: name}, err
	})
	handleAt(mux, api.CallLook, func(r *http.Request, _ api.None) (api.Look, error) {
		return a.hosts.Look(r.Context(), r.PathValue("host"))
	})
	handleAt(mux, api.CallJobs, a.handleJobs)
	handleAt(mux, api.CallLastJobs, a.handleLastJobs)
	handleAt(mux, api.CallSubmit, a.handleSubmitJob)
	handleAt(mux, api.CallJob, func(r *http.Request, _ api.None) (api.JobResponse, error) {
		job, err := a.hosts.Job(r.Context(), r.PathValue("host"), r.PathValue("id"))
		return api.JobResponse{Job: job}, err
	})
	handleAt(mux, api.CallCancel, func(r *http.Request, _ api.None) (api.JobResponse, error) {
		job, err := a.cancelJob(r.Context(), r.PathValue("host"), r.PathValue("id"))
		return api.JobResponse{Job: job}, err
	})
	return mux
}

// guard rejects what a web page could send: if the socket is ever proxied to a port, a
// page of any origin can reach it.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "tunctl" || r.Header.Get("Origin") != "" {
			fail(w, api.Errorf(api.CodeUsage, `not a tunctl client: the Host header must be "tunctl", without an Origin`))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, r.Header.Get(api.ClientHeader))))
	})
}

// withConfig refuses a client that insists on another config file than the agent's. Before
// each other request it reloads the config: the watch of the file may be behind a person who
// saves it and types the next command. Only the request to stop must not wait for a file
// system that hangs.
func (a *Agent) withConfig(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ours := a.opt.Paths.Config
		theirs, err := url.QueryUnescape(r.Header.Get(api.ConfigHeader))
		if err == nil && theirs != "" && !sameFile(theirs, ours) {
			fail(w, api.Errorf(api.CodeConfig, "the agent is running with the config %s, not with %s", ours, theirs).
				WithHint("`tunctl agent restart` with the same --config or TUNCTL_CONFIG changes that; without both, commands use the agent's file"))
			return
		}
		if r.Method+" "+r.URL.Path != string(api.CallStop) {
			a.reload()
		}
		next.ServeHTTP(w, r)
	})
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := os.Stat(a) //nolint:gosec // the user's own client names it
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// clientKey is the key of a request's client in its context.
type clientKey struct{}

// clientOf is the name of the client that sent a request; "" if it has none.
func clientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// handle has a function answer the requests of a call.
func handle[In, Out any](mux *http.ServeMux, call api.Call[In, Out], f func(context.Context, In) (Out, error)) {
	handleAt(mux, call, func(r *http.Request, in In) (Out, error) { return f(r.Context(), in) })
}

// handleAt is handle for a call with values in its path or its query.
func handleAt[In, Out any](mux *http.ServeMux, call api.Call[In, Out], f func(*http.Request, In) (Out, error)) {
	mux.HandleFunc(string(call), func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decode(w, r, &in); err != nil {
			fail(w, err)
			return
		}
		out, err := f(r, in)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // on an error the client has left
	})
}

// decode reads the body of a request. From then on the request may take as long as its host
// needs: the server's read timeout would end it.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeUsage, "cannot read the request: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

func fail(w http.ResponseWriter, err error) {
	e, ok := asAPI(err)
	if !ok {
		e = api.Errorf(api.CodeFailed, "%v", err).WithHint("%s", home.FullDiskHint(err))
	}
	code := map[api.Code]int{
		api.CodeUsage:          http.StatusBadRequest,
		api.CodeUnknownSession: http.StatusNotFound, api.CodeUnknownHost: http.StatusNotFound,
		api.CodeNotReady: http.StatusConflict, api.CodeConfig: http.StatusConflict, api.CodeOtherChoices: http.StatusConflict,
	}[e.Code]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(cmp.Or(code, http.StatusInternalServerError))
	_ = json.NewEncoder(w).Encode(e)
}

func (a *Agent) handleLogin(ctx context.Context, req api.LoginRequest) (api.Host, error) {
	a.hosts.UseEnv(req.Env)
	h, err := a.hosts.Login(ctx, req.Host, clientOf(ctx))
	if err == nil {
		a.resume()
	}
	return h, err
}

func (a *Agent) handleHistory(context.Context, api.None) (api.HistoryResponse, error) {
	runs, err := a.history.Runs()
	return api.HistoryResponse{Runs: append([]api.Run{}, runs...), Weeks: state.Summarize(runs)}, err
}

func (a *Agent) handleOpen(r *http.Request, _ api.None) (api.OpenResponse, error) {
	s, err := a.session(r.PathValue("name"))
	if err != nil {
		return api.OpenResponse{}, err
	}
	return s.page(r.Context(), r.PathValue("endpoint"))
}

func (a *Agent) handleAnswer(r *http.Request, answer api.Answer) (api.None, error) {
	return api.None{}, a.prompts.Answer(r.PathValue("id"), answer)
}

// waitingEvery is how often a command that waits is said to wait.
const waitingEvery = 20 * time.Second

// handleWatch streams events: first the whole status, then changes, and the whole status
// again when the config has changed. A command that waits for a session gives its name:
// what it permitted ends with the stream.
func (a *Agent) handleWatch(w http.ResponseWriter, r *http.Request) {
	var still <-chan time.Time
	if waiter := r.URL.Query().Get("waiter"); waiter != "" {
		a.waiters.enter(waiter)
		defer a.waiterLeft(waiter)
		a.pool.Waiting(true)
		tick := time.NewTicker(waitingEvery)
		defer tick.Stop()
		still = tick.C
	}
	watcher := a.hub.Subscribe(clientOf(r.Context()), api.Answers(r.URL.Query().Get("answers")))
	defer a.hub.Unsubscribe(watcher)
	out := newLines(w)
	next := api.Event{Type: api.EventStatus, Time: time.Now()}
	for {
		if next.Type == api.EventStatus { // read now: the last event of a thing is always its last state
			st := a.Status()
			next.Status = &st
		}
		if out.send(next) != nil {
			return
		}
		for received := false; !received; {
			select {
			case next, received = <-watcher.C:
				if !received {
					return
				}
			case <-still:
				a.pool.Waiting(false)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// lines writes one JSON value per line, each with its own deadline.
type lines struct {
	enc  *json.Encoder
	ctl  *http.ResponseController
	sent *bool // whether anything was sent
}

func newLines(w http.ResponseWriter) lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Time{}) // a stream lasts longer than the server's read timeout
	return lines{enc: json.NewEncoder(w), ctl: ctl, sent: new(bool)}
}

func (l lines) send(v any) error {
	*l.sent = true
	_ = l.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := l.enc.Encode(v); err != nil {
		return err
	}
	return l.ctl.Flush()
}
