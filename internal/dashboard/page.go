package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/internal/desktop"
	"tunctl/internal/localapi"
)

const (
	// linkFor is how long a link works that nobody has used.
	linkFor = 10 * time.Minute
	// arriveFor is how long a browser may take from its one-time link to the page. One that does
	// not find the page's name never arrives.
	arriveFor = 3 * time.Second
)

// page is a page that tunctl opens, at an origin of its own.
type page struct {
	once    digest // of the value in its link; zero once that was used
	ends    time.Time
	arrived chan struct{} // closed when a browser has requested it
	arrive  func()        // closes it, once
	bearer  digest        // of the value that its requests carry; zero before it has one
}

// digest stands for a secret value, so that the time of a comparison says nothing about it.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// newLink returns the address of a new page, which works once and for ten minutes. Its name
// was never used before, so no server can have left a service worker or a cookie for it. The
// value in its fragment is not sent with the request for the page.
func (s *Server) newLink() string {
	return s.addPage(net.JoinHostPort(strings.ToLower(rand.Text())+".localhost", s.port))
}

// newPortLink is newLink for a browser that finds no names below localhost: at a free port.
func (s *Server) newPortLink(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the browser: %w", err)
	}
	s.beside.Go(func() { _ = s.http.Serve(l) }) // which ends with the server
	return s.addPage(net.JoinHostPort(desktop.LoopbackName(), strconv.Itoa(portOf(l)))), nil
}

func (s *Server) addPage(host string) string {
	once := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, p := range s.pages {
		if p.bearer == (digest{}) && time.Now().After(p.ends) {
			delete(s.pages, host)
		}
	}
	arrived := make(chan struct{})
	s.pages[host] = &page{once: digestOf(once), ends: time.Now().Add(linkFor), arrived: arrived, arrive: sync.OnceFunc(func() { close(arrived) })}
	return "http://" + host + "/#" + once
}

// fallbackFor waits until a browser that was sent to a link requests its page. If it does not,
// it returns a link that needs no name.
func (s *Server) fallbackFor(ctx context.Context, link string) (string, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	s.mu.Lock()
	p := s.pages[host]
	s.mu.Unlock()
	if p == nil {
		return "", nil
	}
	select {
	case <-p.arrived:
		return "", nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(s.arriveFor):
		return s.newPortLink(ctx)
	}
}

// OpenPage opens a new page in the browser.
func (s *Server) OpenPage(ctx context.Context) error {
	return openPage(ctx, s.newLink(), s.fallbackFor, s.Desktop.Open)
}

// openPage opens a link in the browser, and its fallback if the browser does not find it.
func openPage(ctx context.Context, link string, fallbackFor func(context.Context, string) (string, error), open func(context.Context, string) error) error {
	if err := open(ctx, link); err != nil {
		return err
	}
	other, err := fallbackFor(ctx, link)
	if err != nil || other == "" {
		return err
	}
	return open(ctx, other)
}

// pageAt is the page at the address that a request names, or nil. The request is noted: its
// browser finds the name.
func (s *Server) pageAt(host string) *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pages[host]
	if p != nil {
		p.arrive()
	}
	return p
}

func (s *Server) hasBearer(r *http.Request, p *page) bool {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && p.bearer == digestOf(bearer)
}

// enter exchanges the one-time value of a page's link for a bearer value. Both are in memory only.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Once string `json:"once"`
	}
	if err := localapi.Decode(w, r, &req); err != nil {
		localapi.Fail(w, err)
		return
	}
	p := s.pageAt(r.Host) // the guard has found one
	bearer := rand.Text()
	s.mu.Lock()
	valid := p.once == digestOf(req.Once) && time.Now().Before(p.ends)
	if valid {
		p.once, p.bearer = digest{}, digestOf(bearer)
	}
	s.mu.Unlock()
	if !valid {
		refuse(w, http.StatusGone, "this address was used already or is too old")
		return
	}
	localapi.Respond(w, map[string]string{"bearer": bearer, "server": s.id})
}
