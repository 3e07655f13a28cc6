package kernel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455, section 1.3, asks for it
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"tunctl/tunnel/step"
)

var (
	path       = regexp.MustCompile(`^(.*)/api/kernels/([^/]+)/channels$`)
	extensions = regexp.MustCompile(`(?i)\r\nSec-WebSocket-Extensions:[^\r\n]*`)
)

// mostNames bounds the names of a kernel, a page and its origin: the relay remembers them.
const mostNames = 1 << 10

// Request is a page's request for a WebSocket to its kernel.
type Request struct {
	*http.Request
	Bytes  []byte // without extensions, such as compression: the messages are read on their way
	Kernel step.Kernel
	base   string // of the server's paths
}

// Parse reads what a client has sent first, if that is a page's request for its kernel.
func Parse(b []byte) (Request, bool) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return Request{}, false
	}
	found := path.FindStringSubmatch(r.URL.EscapedPath())
	if found == nil {
		return Request{}, false
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	k := step.Kernel{
		ID: found[2], Session: r.URL.Query().Get("session_id"), Origin: r.Header.Get("Origin"),
		Accept: base64.StdEncoding.EncodeToString(sum[:]),
	}
	if k.Session == "" || len(k.ID)+len(k.Session)+len(k.Origin) > mostNames {
		return Request{}, false
	}
	return Request{Request: r, Bytes: extensions.ReplaceAll(b, nil), Kernel: k, base: found[1]}, true
}

// Server is a page's server, which is asked as the page itself would ask it.
type Server struct {
	page   Request
	client http.Client
}

// serverTimeout bounds one request to the server.
const serverTimeout = 10 * time.Second

// Server is the server that the page asks, connected to by dial.
func (r Request) Server(dial func(context.Context) (net.Conn, error)) *Server {
	transport := &http.Transport{
		DisableKeepAlives: true, Proxy: nil,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Server{page: r, client: http.Client{Transport: transport, Timeout: serverTimeout, CheckRedirect: refuse}}
}

// get asks for a path of the server's API, and reads the answer.
func (s *Server) get(ctx context.Context, path string, to any) error {
	query := ""
	if token := s.page.URL.Query().Get("token"); token != "" {
		query = "?token=" + url.QueryEscape(token)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.page.Host+s.page.base+path+query, http.NoBody)
	if err != nil {
		return err
	}
	for name, values := range s.page.Header {
		if name != "Connection" && name != "Upgrade" && name != "Accept-Encoding" && !strings.HasPrefix(name, "Sec-Websocket-") {
			r.Header[name] = values
		}
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // the rest has the token
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: the server answered %d", step.ErrNotKept, answer.StatusCode)
	}
	const most = 4 << 20
	b, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err == nil && json.Unmarshal(b, to) != nil {
		err = fmt.Errorf("%w: the server answered something else", step.ErrNotKept)
	}
	return err
}

// Accepts reports whether the server accepts the page, by its own cookie or token, for the kernel. If it does
// not, the error is [step.ErrNotKept]; another one says that it could not be asked.
func (s *Server) Accepts(ctx context.Context) error {
	var kernel struct{ ID string }
	err := s.get(ctx, "/api/kernels/"+s.page.Kernel.ID, &kernel)
	if err == nil && kernel.ID != s.page.Kernel.ID {
		err = fmt.Errorf("%w: the server answered for another kernel", step.ErrNotKept)
	}
	return err
}

// mostPath is the longest path on Linux.
const mostPath = 4 << 10

// tellNotebook tells the relay of which notebook the kernel is.
func (s *Server) tellNotebook(tell func(step.Cell)) {
	var sessions []struct {
		Path   string
		Kernel struct{ ID string }
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	if s.get(ctx, "/api/sessions", &sessions) != nil {
		return // its name is not shown
	}
	for _, x := range sessions {
		if x.Kernel.ID == s.page.Kernel.ID && len(x.Path) <= mostPath {
			tell(step.Cell{Notebook: x.Path})
		}
	}
}
