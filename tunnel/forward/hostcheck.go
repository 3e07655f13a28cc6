package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// allowedHosts are the names by which browsers may request what a forward leads to. A web
// site can point its own name at this machine (DNS rebinding), and browsers then let it
// read the answers; the name in the request gives it away. By the name localhost a web
// site cannot read, but it can post and open WebSockets; the Origin gives it away.
type allowedHosts struct {
	listed []string // in the config
	// network is set if the listener is open to the network: the machine's name leads
	// there, and so do its addresses, which no web site can have as its name.
	network bool
	ports   func() []int // of all forwards of the session; may be nil
}

// allow reports whether a request's Host names this machine.
func (a allowedHosts) allow(hostport string) bool {
	host, _ := splitHost(hostport)
	return isLoopback(host) || a.isListed(host) || a.network && (net.ParseIP(host) != nil || isHostname(host))
}

// allowOrigin reports whether a page of this origin may act on a server that it requests
// as hostport: a page of the server itself, of the same session, or of a listed name.
func (a allowedHosts) allowOrigin(origin, hostport string) bool {
	scheme, address, _ := strings.Cut(origin, "://")
	if scheme != "http" && scheme != "https" {
		return false // "null", a file, an extension
	}
	own, ownPort := splitHost(hostport)
	host, port := splitHost(address)
	switch {
	case host == "":
		return false
	case a.isListed(host):
		return true
	case host == own && scheme == "http" && cmp.Or(port, "80") == cmp.Or(ownPort, "80"):
		return true
	case host != own && (!isLoopback(host) || !isLoopback(own)):
		return false
	}
	return a.ports != nil && slices.ContainsFunc(a.ports(), func(p int) bool { return strconv.Itoa(p) == port })
}

func (a allowedHosts) isListed(host string) bool {
	return slices.ContainsFunc(a.listed, func(name string) bool { return strings.EqualFold(name, host) })
}

// splitHost splits a Host into a name or an address, and a port that may be missing.
func splitHost(hostport string) (host, port string) {
	host = hostport
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host, port = h, p
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), ".")), port
}

// isLoopback reports whether a host leads to this machine, wherever it is used.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// isHostname reports whether a name is this machine's in its network.
func isHostname(name string) bool {
	own, err := os.Hostname()
	if err != nil || own == "" {
		return false
	}
	short, _, _ := strings.Cut(own, ".")
	return strings.EqualFold(name, own) || strings.EqualFold(name, short) || strings.EqualFold(name, short+".local")
}

// checkedConn is a client's connection that answers foreign requests itself, so that they
// do not reach the target. What is not HTTP/1 passes unchanged.
type checkedConn struct {
	net.Conn
	requests requestStream
	refused  func(error) // called with a refusedError
	ready    []byte      // passed, but not yet read
	err      error       // why nothing more passes

	// The client gets bytes of the relay or our answer: those of two would mix.
	mu              sync.Mutex // also held while a deadline is set
	relays, answers bool
}

// Read reads what passes the check.
func (c *checkedConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		n, readErr := c.Conn.Read(p)
		pass, err := c.requests.filter(p[:n])
		switch {
		case err != nil:
			c.err = err
			c.answer(err)
		case len(pass) == 0 && (readErr != nil || len(p) == 0):
			return 0, readErr
		case len(pass) > 0 && &pass[0] == &p[0]: // nothing held back
			return len(pass), nil
		default:
			c.ready = pass
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// Write sends to the client, unless that has got our answer.
func (c *checkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	answers := c.answers
	c.relays = !answers
	c.mu.Unlock()
	if answers {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// answer tells a client why its request was refused. It does not mention the forward,
// since a hostile page can read it. After an answer of the target more of it may follow:
// then the connection just ends.
func (c *checkedConn) answer(err error) {
	status, text := http.StatusBadRequest, err.Error()
	if e, ok := errors.AsType[*refusedError](err); ok {
		c.refused(err)
		status = e.status
		text += "\nhint: " + e.hint
	}
	if !c.beginAnswer() {
		return
	}
	text = "tunctl: error: " + text + "\n"
	if writeResponse(c.Conn, nil, status, []byte(text), http.Header{"Content-Type": {"text/plain; charset=utf-8"}}) != nil {
		return
	}
	// Reading continues until the client has closed, so that our close does not become a
	// reset that overtakes the answer.
	closeWrite(c.Conn)
	_, _ = io.Copy(io.Discard, c.Conn)
}

// beginAnswer gives our answer its time, unless the relay has sent something.
func (c *checkedConn) beginAnswer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers = !c.relays; c.answers {
		_ = c.SetDeadline(time.Now().Add(requestTimeout))
	}
	return c.answers
}

// SetReadDeadline implements net.Conn. It does not cut our answer short, which is sent
// within a Read.
func (c *checkedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// unchecked is the connection under the checks and the exchange of tokens; c itself if there are none.
func unchecked(c net.Conn) net.Conn {
	switch c := c.(type) {
	case *checkedConn:
		return c.Conn
	case *exchangedConn:
		return c.Conn
	}
	return c
}

// refusedError is a request that a web site elsewhere may have caused, or one with a wrong local token.
type refusedError struct {
	status     int
	text, hint string
}

// Error implements error.
func (e *refusedError) Error() string { return e.text + " are not allowed on this forward" }

const allowHosts = " to allow_hosts in the session's section of the config"

var errBadHead = errors.New("the header of this request cannot be read")

// requestState is what a requestStream expects next.
type requestState int

const (
	atLine    requestState = iota // a request line
	atHead                        // the rest of a request's head
	atBody                        // the bytes of a body
	atSize                        // the size of a chunk
	atChunk                       // the bytes of a chunk
	atTrailer                     // what follows the last chunk
	atAny                         // anything: it is not HTTP/1, or no longer
)

// requestStream parses a client's requests (RFC 9112) and lets them pass if their Host
// and Origin are allowed. A request line passes at once, since what begins like one may be a whole
// message of another protocol. The rest of the head is held back until it is complete:
// no server acts on a request before that. With edit the line is held back after its method, too.
type requestStream struct {
	hosts *allowedHosts // nil: all are allowed
	// edit, if set, returns a request's line without the method, and its header, as they pass, or why they do not.
	edit  func(line, header []byte) ([]byte, error)
	state requestState
	line  []byte // the current line
	head  []byte // what is held back of the current head
	first int    // how much of that is the request line
	old   bool   // the current request is of HTTP/1.0, which may have no Host
	safe  bool   // its method changes nothing; RFC 9110, section 9.2.1
	left  int64  // how much of the body or chunk is still to come
}

// filter parses what a client has sent and returns what may pass now: b itself, if
// nothing was or is held back.
func (r *requestStream) filter(b []byte) (pass []byte, err error) {
	n := r.skip(b)
	if n == len(b) {
		return b, nil
	}
	pass, b = append(pass, b[:n]...), b[n:]
	for len(b) > 0 {
		n := r.skip(b)
		if n == 0 { // a line, or a part of one
			n = cmp.Or(bytes.IndexByte(b, '\n')+1, len(b))
			r.line = append(r.line, b[:n]...)
		}
		held := r.heldOf(n)
		pass, r.head = append(pass, b[:n-held]...), append(r.head, b[n-held:n]...)
		b = b[n:]
		if err := r.parseLine(); err != nil {
			return nil, err
		}
		if held > 0 && r.state != atHead && len(r.line) == 0 {
			pass, r.head = append(pass, r.head...), nil
		}
	}
	return pass, nil
}

// heldOf is how many of the last n bytes, which end the line, are held back.
func (r *requestStream) heldOf(n int) int {
	if r.state == atHead {
		return n
	}
	if r.state != atLine || r.edit == nil {
		return 0
	}
	method := bytes.IndexByte(r.line, ' ') + 1
	return min(n, len(r.line)-cmp.Or(method, len(r.line)))
}

// skip returns how much of b passes unparsed.
func (r *requestStream) skip(b []byte) int {
	if r.state == atAny {
		return len(b)
	}
	if r.state != atBody && r.state != atChunk {
		return 0
	}
	n := int(min(r.left, int64(len(b))))
	r.left -= int64(n)
	if r.left > 0 {
		return n
	}
	if r.state == atChunk {
		r.state = atSize
	} else {
		r.state = atLine
	}
	return n
}

// parseLine parses the current line, if it is complete.
func (r *requestStream) parseLine() error {
	text, whole := bytes.CutSuffix(r.line, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	switch {
	case r.state == atLine && !mayBeRequest(text, whole):
		r.enter(atAny)
	case max(len(r.line), len(r.head)) > maxPreread && (r.state == atLine || r.state == atHead):
		return errBadHead
	case len(r.line) > maxPreread:
		r.enter(atAny)
	case !whole:
	case r.state == atLine && len(text) > 0:
		method, _, _ := strings.Cut(string(text), " ")
		r.safe = slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, method)
		r.old = bytes.HasSuffix(text, []byte("HTTP/1.0"))
		r.first = len(r.head)
		r.enter(atHead)
	case r.state == atHead && len(text) == 0:
		return r.checkHead()
	case r.state == atSize:
		r.parseSize(string(text))
	case r.state == atTrailer && len(text) == 0:
		r.enter(atLine)
	default:
		r.line = r.line[:0]
	}
	return nil
}

func (r *requestStream) enter(s requestState) { r.state, r.line = s, nil }

// checkHead checks a complete head and finds out what follows it.
func (r *requestStream) checkHead() error {
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(r.head[r.first:]))).ReadMIMEHeader()
	if err != nil {
		return errBadHead
	}
	if err := r.checkOrigin(header); err != nil {
		return err
	}
	if r.edit != nil {
		if r.head, err = r.edit(r.head[:r.first], r.head[r.first:]); err != nil {
			return err
		}
	}
	coding := strings.ToLower(strings.Join(header["Transfer-Encoding"], ","))
	length := header.Get("Content-Length")
	switch {
	case strings.HasSuffix(coding, "chunked"):
		r.enter(atSize)
	case coding != "":
		r.enter(atAny)
	case length != "":
		r.enterBytes(atBody, length, 10)
	default:
		r.enter(atLine)
	}
	return nil
}

// checkOrigin checks the Host and the Origin of a request.
func (r *requestStream) checkOrigin(header textproto.MIMEHeader) error {
	if r.hosts == nil {
		return nil
	}
	hosts := header["Host"]
	if len(hosts) == 0 && !r.old {
		hosts = []string{""}
	}
	for _, host := range hosts {
		if !r.hosts.allow(host) {
			return &refusedError{http.StatusMisdirectedRequest, fmt.Sprintf("requests for the host name %q", host), "open it by the name localhost, or add the name" + allowHosts}
		}
	}
	acts := !r.safe || header.Get("Upgrade") != ""
	for _, origin := range header["Origin"] {
		if acts && !r.hosts.allowOrigin(origin, header.Get("Host")) {
			return &refusedError{http.StatusForbidden, fmt.Sprintf("requests by a page of %q", origin), "if you trust that page, add the name of its host" + allowHosts}
		}
	}
	return nil
}

// parseSize reads the size of a chunk, which a line end follows.
func (r *requestStream) parseSize(text string) {
	size, _, _ := strings.Cut(text, ";")
	r.enterBytes(atChunk, size, 16)
	switch r.state {
	case atChunk:
		r.left += int64(len("\r\n"))
	case atLine:
		r.enter(atTrailer)
	}
}

// enterBytes expects so many bytes next, if there are any.
func (r *requestStream) enterBytes(s requestState, size string, base int) {
	n, err := strconv.ParseUint(strings.TrimSpace(size), base, 62)
	switch {
	case err != nil:
		r.enter(atAny)
	case n == 0:
		r.enter(atLine)
	default:
		r.left = int64(n)
		r.enter(s)
	}
}

// mayBeRequest reports whether text is a request line, or the beginning of one, that a
// browser sends to a server. The target of a request to a proxy is not a path.
func mayBeRequest(text []byte, whole bool) bool {
	if len(text) == 0 {
		return true // empty lines may come before
	}
	parts := requestLine.FindSubmatch(text)
	if parts == nil {
		return false
	}
	const want = "HTTP/1."
	version := string(parts[1])
	return httpVersion.MatchString(version) || !whole && strings.HasPrefix(want, version)
}

var (
	// requestLine is a request line up to some part of it; the method is one of RFC 9110, section 5.6.2.
	requestLine = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?: (?:[/*][^ \\p{Cc}]*(?: (.*))?)?)?$")
	httpVersion = regexp.MustCompile(`^HTTP/1\.[0-9]$`)
)
