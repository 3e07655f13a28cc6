// Package localapi is the HTTP that the agent and the dashboard speak: it reads requests, writes responses,
// errors and streams. It also serves the agent's local API, and rejects what is no client of that. It does
// not know what is requested.
package localapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

const (
	maxBody       = 1 << 20
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second // for one event to a subscriber
)

// Serve serves the local API on l until ctx ends, then lets requests finish within the drain
// time.
func Serve(ctx context.Context, l net.Listener, h http.Handler, drain time.Duration, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           Guard(h),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       2 * headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 16,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return ServeUntilDone(ctx, srv, drain, l)
}

// ServeUntilDone serves on all listeners until ctx ends or one fails, then lets requests finish
// within the drain time.
func ServeUntilDone(ctx context.Context, srv *http.Server, drain time.Duration, listeners ...net.Listener) error {
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	var served sync.WaitGroup
	defer served.Wait()
	for _, l := range listeners {
		served.Go(func() { end(srv.Serve(l)) })
	}
	<-serving.Done()
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := srv.Shutdown(draining)
	if err != nil {
		err = srv.Close()
	}
	if ctx.Err() == nil {
		return context.Cause(serving)
	}
	return err
}

// Guard rejects what a web page could send: if the socket is ever proxied to a port, a
// page of any origin can reach it.
func Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "tunctl" || r.Header.Get("Origin") != "" {
			Fail(w, api.Errorf(api.CodeUsage, `not a tunctl client: the Host header must be "tunctl", without an Origin`))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, r.Header.Get(api.ClientHeader))))
	})
}

// clientKey is the key of a request's client in its context.
type clientKey struct{}

// Client is the name of the client that sent a request; "" if it has none.
func Client(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// Handle has a function answer the requests of a call.
func Handle[In, Out any](mux *http.ServeMux, call api.Call[In, Out], f func(context.Context, In) (Out, error)) {
	HandleAt(mux, call, func(r *http.Request, in In) (Out, error) { return f(r.Context(), in) })
}

// HandleAt is Handle for a call with values in its path or its query.
func HandleAt[In, Out any](mux *http.ServeMux, call api.Call[In, Out], f func(*http.Request, In) (Out, error)) {
	mux.HandleFunc(string(call), func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out Out
		err := Decode(w, r, &in)
		if err == nil {
			out, err = f(r, in)
		}
		if err != nil {
			Fail(w, err)
			return
		}
		Respond(w, out)
	})
}

// Respond sends the answer to a request.
func Respond(w http.ResponseWriter, out any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // on an error the client has left
}

// Decode reads the body of a request. From then on the request may take as long as its host
// needs: the server's read timeout would end it.
func Decode(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return api.Errorf(api.CodeUsage, "cannot read the request: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}

var statuses = map[api.Code]int{
	api.CodeUsage:          http.StatusBadRequest,
	api.CodeUnknownSession: http.StatusNotFound, api.CodeUnknownHost: http.StatusNotFound,
	api.CodeNotReady: http.StatusConflict, api.CodeConfig: http.StatusConflict, api.CodeOtherChoices: http.StatusConflict,
	api.CodeAgent: http.StatusBadGateway,
}

// ErrorOf is an error as clients get it.
func ErrorOf(err error) *api.Error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = api.Errorf(api.CodeFailed, "%s", api.Redact(err.Error())).WithHint("%s", home.FullDiskHint(err))
	}
	return e
}

// Fail responds with an error, and with the status that its code has.
func Fail(w http.ResponseWriter, err error) {
	e := ErrorOf(err)
	Refuse(w, cmp.Or(statuses[e.Code], http.StatusInternalServerError), e)
}

// Refuse responds with an error and a status.
func Refuse(w http.ResponseWriter, status int, e *api.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	Respond(w, e)
}

// Lines writes one JSON value per line, each with its own deadline. Several goroutines may send.
type Lines struct {
	mu   sync.Mutex
	enc  *json.Encoder
	ctl  *http.ResponseController
	sent bool
}

// NewLines begins a stream.
func NewLines(w http.ResponseWriter) *Lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Time{}) // a stream lasts longer than the server's read timeout
	return &Lines{enc: json.NewEncoder(w), ctl: ctl}
}

// Send writes one value.
func (l *Lines) Send(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = true
	_ = l.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer func() { _ = l.ctl.SetWriteDeadline(time.Time{}) }() // the connection may carry further responses
	if err := l.enc.Encode(v); err != nil {
		return err
	}
	return l.ctl.Flush()
}

// Sent reports whether anything was sent.
func (l *Lines) Sent() bool { return l.sent }

// Flush has the client know that the stream is open, before the first value.
func (l *Lines) Flush() error { return l.ctl.Flush() }
