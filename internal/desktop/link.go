package desktop

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/peer"
)

// link is an address on loopback that redirects to one page, once. Its own address is
// on the command line of the browser, where every user of the machine can read it; the
// page's address, with its token, is only in the response.
type link struct {
	target string
	path   string
	port   string
	server *http.Server
	served sync.WaitGroup // until the server has ended
	used   chan struct{}  // closed when it is used
	spent  atomic.Bool
}

// newLink listens for the one use.
func newLink(ctx context.Context, target string) (*link, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	l := &link{
		target: target,
		path:   "/" + rand.Text(),
		port:   strconv.Itoa(listener.Addr().(*net.TCPAddr).Port),
		used:   make(chan struct{}),
	}
	l.server = &http.Server{
		Handler:           l,
		ReadHeaderTimeout: time.Minute, // on a busy computer a browser connects long before it asks
		WriteTimeout:      5 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	l.served.Go(func() { _ = l.server.Serve(listener) }) // always http.ErrServerClosed: only close ends it
	return l, nil
}

// URL is the address that works once.
func (l *link) URL() string { return "http://" + net.JoinHostPort(LoopbackName(), l.port) + l.path }

// ServeHTTP implements http.Handler.
func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	switch foreign := peer.CheckRequest(r); {
	case !l.ownHost(r.Host): // a page elsewhere whose name was rebound to loopback
		http.Error(w, "wrong host name for this link", http.StatusMisdirectedRequest)
	case foreign != nil:
		http.Error(w, foreign.Error(), http.StatusForbidden)
	case subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(l.path)) != 1:
		http.NotFound(w, r)
	case r.Method != http.MethodGet: // a preview's HEAD must not spend the link
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case l.spent.Swap(true):
		http.Error(w, "This link was used already. Open the page again from tunctl.", http.StatusGone)
	default:
		w.Header().Set("Location", l.target)
		w.WriteHeader(http.StatusSeeOther)
		close(l.used)
	}
}

func (l *link) ownHost(host string) bool {
	return host == net.JoinHostPort("127.0.0.1", l.port) || host == net.JoinHostPort("localhost", l.port)
}

// close ends the link after the responses in progress.
func (l *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		_ = l.server.Close()
	}
	l.served.Wait()
}
