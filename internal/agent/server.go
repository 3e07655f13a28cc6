package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

const (
	maxBody       = 1 << 20
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second // for one event to a subscriber

	stopPath = "/v1/stop"
)

// serveAPI serves the local API on l until ctx ends, then lets requests finish within
// the drain time.
func (a *Agent) serveAPI(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           guard(a.sameConfig(a.reloading(a.routes()))),
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
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, a.Status()) })
	mux.HandleFunc("GET /v1/watch", a.handleWatch)
	mux.HandleFunc("GET /v1/usage", a.handleUsage)
	mux.HandleFunc("POST /v1/up", a.handleUp)
	mux.HandleFunc("POST /v1/preview", withoutReadDeadline(a.handlePreview))
	mux.HandleFunc("POST /v1/down", withoutReadDeadline(handle(a.handleDown)))
	mux.HandleFunc("POST /v1/assistant/up", withoutReadDeadline(handle(a.handleAssistantUp)))
	mux.HandleFunc("POST /v1/assistant/down", withoutReadDeadline(handle(a.handleAssistantDown)))
	mux.HandleFunc("POST /v1/forward", handle(a.handleForward))
	mux.HandleFunc("POST /v1/extend", withoutReadDeadline(handle(a.handleExtend)))
	mux.HandleFunc("POST /v1/check", withoutReadDeadline(handle(a.handleCheck)))
	mux.HandleFunc("POST /v1/refresh", withoutReadDeadline(handle(a.handleRefresh)))
	mux.HandleFunc("POST /v1/reload", handle(a.handleReload))
	mux.HandleFunc("POST /v1/attach", withoutReadDeadline(handle(a.handleAttach)))
	mux.HandleFunc("POST /v1/quota", withoutReadDeadline(handle(a.handleQuota)))
	mux.HandleFunc("GET /v1/balances", a.handleBalances)
	mux.HandleFunc("GET /v1/history", a.handleHistory)
	mux.HandleFunc("POST /v1/login", handle(a.handleLogin))
	mux.HandleFunc("POST /v1/logout", handle(a.handleLogout))
	mux.HandleFunc("POST "+stopPath, handle(a.handleStop))
	mux.HandleFunc("POST /v1/sessions/{name}/open", a.handleOpen)
	mux.HandleFunc("POST /v1/sessions/{name}/endpoints/{endpoint}/open", withoutReadDeadline(a.handleOpenEndpoint))
	mux.HandleFunc("GET /v1/sessions/{name}/log", a.handleLog)
	mux.HandleFunc("GET /v1/sessions/{name}/choices", a.handleChoices)
	mux.HandleFunc("POST /v1/prompts/{id}", a.handleAnswer)
	mux.HandleFunc("POST /v1/stream", withoutReadDeadline(a.handleStream))
	mux.HandleFunc("GET /v1/hosts/{host}/scheduler", withoutReadDeadline(a.handleScheduler))
	mux.HandleFunc("POST /v1/hosts/{host}/look", withoutReadDeadline(a.handleLook))
	mux.HandleFunc("GET /v1/hosts/{host}/jobs", withoutReadDeadline(a.handleJobs))
	mux.HandleFunc("GET /v1/hosts/{host}/last-jobs", a.handleLastJobs)
	mux.HandleFunc("POST /v1/hosts/{host}/jobs", withoutReadDeadline(a.handleSubmitJob))
	mux.HandleFunc("GET /v1/hosts/{host}/jobs/{id}", withoutReadDeadline(a.handleJob))
	mux.HandleFunc("GET /v1/hosts/{host}/jobs/{id}/log", withoutReadDeadline(a.handleJobLog))
	mux.HandleFunc("DELETE /v1/hosts/{host}/jobs/{id}", withoutReadDeadline(a.handleCancelJob))
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

// clientKey is the key of a request's client in its context.
type clientKey struct{}

// clientOf is the name of the client that sent a request; "" if it has none.
func clientOf(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// handle makes a handler from a function of a request.
func handle[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decode(r, &in); err != nil {
			fail(w, err)
			return
		}
		out, err := f(r.Context(), in)
		replyOrFail(w, out, err)
	}
}

// withoutReadDeadline lets a request take as long as its host needs: the server's read
// timeout would end it.
func withoutReadDeadline(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		next(w, r)
	}
}

func decode(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeUsage, "cannot read the request: %w", err)
	}
	return nil
}

// replyOrFail sends the response, or the error if there is one.
func replyOrFail(w http.ResponseWriter, out any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, out)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // on an error the client has left
}

func fail(w http.ResponseWriter, err error) {
	e, ok := asAPI(err)
	if !ok {
		e = api.Errorf(api.CodeFailed, "%v", err).WithHint("%s", home.FullDiskHint(err))
	}
	code := http.StatusInternalServerError
	switch e.Code {
	case api.CodeUsage:
		code = http.StatusBadRequest
	case api.CodeUnknownSession, api.CodeUnknownHost:
		code = http.StatusNotFound
	case api.CodeNotReady, api.CodeConfig, api.CodeOtherChoices:
		code = http.StatusConflict
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(e)
}

// handleUp reads the waiter from the URL, where older agents ignore it.
func (a *Agent) handleUp(w http.ResponseWriter, r *http.Request) {
	handle(func(ctx context.Context, req api.UpRequest) (api.UpResponse, error) {
		a.useEnv(req.Env)
		return a.up(ctx, req, r.URL.Query().Get("waiter"))
	})(w, r)
}

func (a *Agent) handleLogin(ctx context.Context, req api.LoginRequest) (api.Host, error) {
	a.useEnv(req.Env)
	if err := a.allowed(ctx, req.Host); err != nil {
		return api.Host{}, err
	}
	h := a.pool.Host(req.Host)
	h.UpFor(clientOf(ctx))
	a.resume()
	return h.Status(), nil
}

func (a *Agent) handleLogout(_ context.Context, req api.LoginRequest) (api.Host, error) {
	if err := a.knownHost(req.Host); err != nil {
		return api.Host{}, err
	}
	h := a.pool.Host(req.Host)
	if usedBy := h.Down(); len(usedBy) > 0 {
		return api.Host{}, stillUsedError(req.Host, usedBy)
	}
	return h.Status(), nil
}

// stillUsedError is the error of a logout from a host whose connection other hosts use: a
// jump host, or the same account by another name.
func stillUsedError(host string, usedBy []string) *api.Error {
	labels, commands := make([]string, len(usedBy)), make([]string, len(usedBy))
	for i, name := range usedBy {
		labels[i], commands[i] = api.HostLabel(name), "`tunctl logout "+name+"`"
	}
	verb := "uses"
	if len(usedBy) > 1 {
		verb = "use"
	}
	return api.Errorf(api.CodeFailed, "the connection to %s stays up: %s still %s it",
		api.HostLabel(host), strings.Join(labels, ", "), verb).
		WithHint("run %s; the connection ends with its last user", strings.Join(commands, " and "))
}

func (a *Agent) handleStop(context.Context, struct{}) (struct{}, error) {
	a.stop()
	return struct{}{}, nil
}

func (a *Agent) handleHistory(w http.ResponseWriter, _ *http.Request) {
	runs, err := a.history.Runs()
	replyOrFail(w, api.HistoryResponse{Runs: append([]api.Run{}, runs...), Weeks: state.Summarize(runs)}, err)
}

func (a *Agent) handleOpen(w http.ResponseWriter, r *http.Request) {
	s, err := a.session(r.PathValue("name"))
	var page api.OpenResponse
	if err == nil {
		page, err = s.page()
	}
	replyOrFail(w, page, err)
}

func (a *Agent) handleOpenEndpoint(w http.ResponseWriter, r *http.Request) {
	s, err := a.session(r.PathValue("name"))
	var page api.OpenResponse
	if err == nil {
		page, err = s.otherPage(r.Context(), r.PathValue("endpoint"))
	}
	replyOrFail(w, page, err)
}

func (a *Agent) handleAnswer(w http.ResponseWriter, r *http.Request) {
	var answer api.Answer
	err := decode(r, &answer)
	if err == nil {
		err = a.prompts.answer(r.PathValue("id"), answer)
	}
	replyOrFail(w, struct{}{}, err)
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
	watcher := a.hub.subscribeAs(clientOf(r.Context()), api.Answers(r.URL.Query().Get("answers")))
	defer a.hub.unsubscribe(watcher)
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
			case next, received = <-watcher.events:
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
