package desktop

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/peer"
)

const linkTimeout = 30 * time.Second // for the use of a one-time link

// Open shows target: a web page in the browser, any other address, such as
// vnc://localhost:5901, in the desktop's program for it. Without a desktop the error wraps
// ErrUnavailable, without a browser ErrNoBrowser.
func Open(ctx context.Context, target string) error {
	u, err := url.Parse(target)
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return openPage(ctx, u.String())
	case err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.RawQuery != "": // it would be on a command line
		return errors.New("only a complete address can be opened, without secrets if it is no web page") // it may hold a token
	}
	return startFirst(ctx, openers(runtime.GOOS, u.String()))
}

// openPage shows target, an http or https address that may contain a token, in the
// user's browser. The address is on no command line: the browser gets a link that
// works once. openPage returns as soon as the browser requested the page.
func openPage(ctx context.Context, target string) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	l, err := newLink(ctx, target)
	if err != nil {
		return err
	}
	defer l.close()
	return noBrowser(firstOf(ctx, browsers(runtime.GOOS, l.URL()), func(argv []string) error {
		ended, err := start(argv)
		if err != nil {
			return err
		}
		return awaitUse(ctx, l.used, ended)
	}))
}

// noBrowser makes an error of [firstOf] one that wraps ErrNoBrowser if no program is a browser.
func noBrowser(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrNoBrowser, err)
	}
	return err
}

// LoopbackName is the name by which the user's browser reaches a server on 127.0.0.1.
func LoopbackName() string {
	if wsl() {
		return "localhost" // the only name Windows relays into WSL
	}
	return "127.0.0.1"
}

// awaitUse waits until the link is used or the browser fails. One that ended without an error
// has passed the link on.
func awaitUse(ctx context.Context, used <-chan struct{}, ended <-chan error) error {
	for {
		select {
		case <-used:
			return nil
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotOpened, ctx.Err())
		}
	}
}

// openers are the programs that open an address or a file, the best first.
func openers(goos, what string) [][]string {
	switch {
	case goos == "windows":
		return [][]string{{"rundll32.exe", "url.dll,FileProtocolHandler", what}}
	case goos == "darwin":
		return [][]string{{"open", what}}
	case graphical():
		return [][]string{{"xdg-open", what}, {"gio", "open", what}}
	}
	return nil
}

// OpenFile opens a text file in the user's editor or viewer.
func OpenFile(ctx context.Context, path string) error {
	return startFirst(ctx, editors(runtime.GOOS, path))
}

func editors(goos, path string) [][]string {
	switch goos {
	case "windows":
		return [][]string{{"notepad.exe", path}}
	case "darwin":
		return [][]string{{"open", "-t", path}}
	}
	return openers(goos, path)
}

// OpenHTML shows an HTML file in the user's browser.
func OpenHTML(ctx context.Context, path string) error {
	return noBrowser(startFirst(ctx, browsers(runtime.GOOS, fileURL(filepath.ToSlash(path)))))
}

// fileURL is the address of a file with that absolute path, with slashes. A Windows
// path begins with a drive, which without a slash before it would be a host.
func fileURL(path string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// browsers lists the command lines that show url, the best first.
func browsers(goos, url string) [][]string {
	list := chosenBrowsers(os.Getenv("BROWSER"), url)
	if goos == "linux" && wsl() {
		return append(list, []string{"wslview", url}, openers("windows", url)[0])
	}
	list = append(list, openers(goos, url)...)
	if goos != "windows" && goos != "darwin" && graphical() {
		for _, name := range []string{"sensible-browser", "x-www-browser", "firefox", "chromium", "google-chrome"} {
			list = append(list, []string{name, url})
		}
	}
	return list
}

// chosenBrowsers reads $BROWSER: commands separated by colons, each with %s for the
// address, or without, and then the address is the last argument.
func chosenBrowsers(value, url string) [][]string {
	var list [][]string
	for entry := range strings.SplitSeq(value, ":") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		if !slices.ContainsFunc(words[1:], func(w string) bool { return strings.Contains(w, "%s") }) {
			words = append(words, "%s")
		}
		for i, w := range words[1:] {
			words[i+1] = strings.ReplaceAll(w, "%s", url)
		}
		list = append(list, words)
	}
	return list
}

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
