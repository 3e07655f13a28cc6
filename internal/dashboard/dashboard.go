// Package dashboard serves tunctl's page in the browser: sessions, the queue, logs, hosts,
// balances and history, live, with what the user can do about them. It is a client of the
// agent like any other, in a process of its own that ends with the agent.
//
// It gives nothing away. At its port, which stays the same, is a page without data, with one
// button: tunctl then opens the dashboard itself, at an origin that never existed before, so
// that nothing which other servers left in the browser applies to it. Every request for data
// carries a bearer value that this page gets once, for the one-time value in its link. Tokens
// of notebooks stay on this side: a page is opened, and its address copied, by this process.
package dashboard

import (
	"context"
	"crypto/rand"
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
	"tunctl/internal/freeport"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
)

const (
	// headerTimeout is long: on a busy computer a browser connects long before it asks.
	headerTimeout = time.Minute
	drainTimeout  = 2 * time.Second
)

// Options configure a server.
type Options struct {
	Paths   home.Paths
	Version string // of the agent that the server belongs to
	Client  *client.Client
	// LoginWindow logs in to a host in a terminal window, for want of a tray.
	LoginWindow func(ctx context.Context, host string) error
	Desktop     action.Desktop // for the pages of sessions, and for the dashboard's own
}

// Server serves the dashboard on a port of loopback.
type Server struct {
	Options
	http      *http.Server
	end       context.CancelFunc // ends the streams of all pages
	listeners []net.Listener
	beside    sync.WaitGroup // what serves on the ports of single pages
	port      string
	door      string // the Host header of the page with the button
	id        string // tells the server's own pages that it is still the same
	arriveFor time.Duration

	mu      sync.Mutex
	pages   map[string]*page // by their Host headers
	pressed time.Time        // when the button was used last
}

// Listen makes a server on the port of its home or, if another program has that, on any other.
// Serve must follow.
func Listen(ctx context.Context, o Options) (*Server, error) {
	listeners, err := listenPair(ctx, o.Paths.DashboardPort())
	if err != nil {
		listeners, err = listenPair(ctx, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	port := strconv.Itoa(portOf(listeners[0]))
	streams, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		Options: o, end: end, listeners: listeners, port: port, door: net.JoinHostPort(desktop.LoopbackName(), port),
		id: rand.Text(), arriveFor: arriveFor, pages: map[string]*page{},
	}
	s.http = &http.Server{
		Handler:           s.guard(),
		BaseContext:       func(net.Listener) context.Context { return streams },
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return s, nil
}

// listenPair listens on a port of both loopback addresses: a browser may take either for a
// name, and must not find another user's program there.
func listenPair(ctx context.Context, port int) ([]net.Listener, error) {
	v4, v6, err := freeport.Loopback(ctx, port)
	if err != nil {
		return nil, err
	}
	if v6 != nil {
		return []net.Listener{v4, v6}, nil
	}
	if freeport.HasIPv6(ctx) {
		_ = freeport.Close(v4)
		return nil, fmt.Errorf("port %d of ::1 is in use", portOf(v4))
	}
	return []net.Listener{v4}, nil
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// Bookmark is the address of the page with the button; "" if it will be another next time.
func (s *Server) Bookmark() string {
	if s.port != strconv.Itoa(s.Paths.DashboardPort()) {
		return ""
	}
	return "http://" + s.door + "/"
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.end)()
	defer s.beside.Wait()
	return localapi.ServeUntilDone(ctx, s.http, drainTimeout, s.listeners...)
}
