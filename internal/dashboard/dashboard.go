// Package dashboard serves tunctl's page in the browser: sessions, the queue, logs, hosts,
// balances and history, live, with what a person can do about them.
//
// It is a client of the agent like any other, and serves on loopback while a page is open.
// It gives nothing away: neither the page nor its scripts contain a secret, and every
// request for data carries a bearer value that a page gets once, for the one-time value in
// the address that it was opened with. Tokens of notebooks stay on this side: a page is
// opened, and its address copied, by this process.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
)

const (
	// linkFor is how long an address works that nobody has opened, and how long the server
	// waits for its first page.
	linkFor = 10 * time.Minute
	// Linger is how long the server stays after its last page was closed: a reload, or a
	// browser that restarts, takes less.
	Linger = time.Minute

	headerTimeout = 5 * time.Second
	drainTimeout  = 2 * time.Second
)

// Options configure a server.
type Options struct {
	Client     *client.Client
	StartAgent func(ctx context.Context) error
	Login      func(ctx context.Context, host string) error
	// Prompts says where a host's questions are asked: "in the terminal that runs …".
	Prompts string
	Desktop action.Desktop // for the pages of sessions, and for the dashboard's own
}

// Server serves the dashboard on a port of loopback.
type Server struct {
	Options
	listener net.Listener
	host     string // of its address; the only Host header that it accepts

	mu      sync.Mutex
	links   map[digest]time.Time // the one-time values that nobody has used, with their ends
	bearers map[digest]bool
	pages   int         // that are open
	idle    *time.Timer // until the end without a page; nil until Serve
}

// digest stands for a secret value, so that the time of a comparison says nothing about it.
type digest [sha256.Size]byte

// Listen makes a server on a free port. Serve must follow.
func Listen(ctx context.Context, o Options) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	return &Server{
		Options: o, listener: l, host: net.JoinHostPort(desktop.LoopbackName(), port),
		links: map[digest]time.Time{}, bearers: map[digest]bool{},
	}, nil
}

// Link returns a new address of the page, which works once and for ten minutes: the server
// waits so long for it. The value in its fragment is never sent with a request for the page
// itself.
func (s *Server) Link() string {
	once := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[digestOf(once)] = time.Now().Add(linkFor)
	if s.idle != nil && s.pages == 0 {
		s.idle.Reset(linkFor)
	}
	return "http://" + s.host + "/#" + once
}

// OpenPage opens a page in the browser.
func (s *Server) OpenPage(ctx context.Context) error { return s.Desktop.Open(ctx, s.Link()) }

// Serve serves until ctx ends, or no page has been open for a while.
func (s *Server) Serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	srv := &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.mu.Lock()
	s.idle = time.AfterFunc(linkFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pages == 0 { // else one was opened at the last moment
			end()
		}
	})
	s.mu.Unlock()
	defer s.idle.Stop()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done(): // and with it the streams
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if srv.Shutdown(drain) != nil {
		_ = srv.Close()
	}
	<-served // always http.ErrServerClosed
	return nil
}

// pageOpened counts a page until closed is called.
func (s *Server) pageOpened() (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	s.idle.Stop()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pages--; s.pages == 0 {
			s.idle.Reset(Linger)
		}
	}
}
