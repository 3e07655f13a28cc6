package forward

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
)

// hostNames are the names by which browsers may ask for what a forward leads to. A page
// elsewhere can have its own name lead to this machine (DNS rebinding), and its browser
// lets it read the answers; the name in the request tells it from a page of ours.
type hostNames struct {
	listed []string // by the person
	// network says that the listener is open to the network: the machine's own name
	// leads there, and so do its addresses, which no page can have as its name.
	network bool
}

// allow reports whether a request's Host names this machine.
func (n hostNames) allow(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if ip := net.ParseIP(host); ip != nil {
		return n.network || ip.IsLoopback()
	}
	return slices.ContainsFunc(n.listed, func(name string) bool { return strings.EqualFold(name, host) }) ||
		n.network && isHostname(host)
}

// isHostname reports whether a name is that of this machine in its network.
func isHostname(name string) bool {
	own, err := os.Hostname()
	if err != nil || own == "" {
		return false
	}
	short, _, _ := strings.Cut(own, ".")
	return strings.EqualFold(name, own) || strings.EqualFold(name, short) || strings.EqualFold(name, short+".local")
}

// checkedConn is a client's connection from which a request by a foreign name can not be
// read: it is answered here. What is not HTTP/1 passes as it is.
type checkedConn struct {
	net.Conn
	requests requestStream
	refused  func(host string) // told of a foreign name
	ready    []byte            // let through and not yet read
	err      error             // why no more is

	sender atomic.Int32 // whose bytes the client gets: those of a relay, or our answer
}

// The senders of a checkedConn. There is only ever one: two would mix their bytes.
const (
	noSender int32 = iota
	relaySends
	answerSends
)

func newCheckedConn(c net.Conn, names hostNames, refused func(host string)) *checkedConn {
	return &checkedConn{Conn: c, requests: requestStream{names: names}, refused: refused}
}

// Read reads what is let through.
func (c *checkedConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		n, readErr := c.Conn.Read(p)
		pass, err := c.requests.take(p[:n])
		switch {
		case err != nil:
			c.err = err
			c.answer(err)
		case len(pass) == 0 && (readErr != nil || len(p) == 0):
			return 0, readErr
		case len(pass) > 0 && &pass[0] == &p[0]: // as it came
			return len(pass), nil
		default:
			c.ready = pass
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// Write passes on what comes back for the client, unless that got our answer.
func (c *checkedConn) Write(p []byte) (int, error) {
	if !c.sender.CompareAndSwap(noSender, relaySends) && c.sender.Load() != relaySends {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// answer tells a client why its request went no further. Nothing of the forward is in
// it: a hostile page can read it. Once something came back for an earlier request, more
// of it may be on its way, and the connection just ends.
func (c *checkedConn) answer(err error) {
	status, text := http.StatusBadRequest, err.Error()
	if e, ok := errors.AsType[*foreignHostError](err); ok {
		c.refused(e.host)
		status = http.StatusMisdirectedRequest
		text += "\nhint: open it by the name localhost, or add the name to allow_hosts in the session's section of the config"
	}
	if !c.sender.CompareAndSwap(noSender, answerSends) {
		return
	}
	text = "tunctl: error: " + text + "\n"
	resp := &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
		Header: http.Header{
			"Content-Type":           {"text/plain; charset=utf-8"},
			"Cache-Control":          {"no-store"},
			"X-Content-Type-Options": {"nosniff"},
		},
	}
	_ = c.SetDeadline(time.Now().Add(speakTimeout))
	if resp.Write(c.Conn) != nil {
		return
	}
	// What the client still sends is read until it has hung up, so that closing does
	// not become a reset that overtakes the answer.
	closeWrite(c.Conn)
	_, _ = io.Copy(io.Discard, c.Conn)
}

// CloseWrite half-closes the connection.
func (c *checkedConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

// SetLinger is net.TCPConn's.
func (c *checkedConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(sec)
	}
	return errors.ErrUnsupported
}

// SyscallConn implements syscall.Conn.
func (c *checkedConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// foreignHostError says that a request asked for a name that is not this machine's.
type foreignHostError struct{ host string }

// Error implements error.
func (e *foreignHostError) Error() string {
	return fmt.Sprintf("requests for the host name %q are not allowed on this forward", e.host)
}

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

// requestStream follows a client's requests through its bytes (RFC 9112) and lets them
// through if their Host is allowed. A request line passes at once, since what begins
// like one may be the whole message of another protocol. The rest of the head waits
// until it is complete: no server acts on a request before.
type requestStream struct {
	names hostNames
	state requestState
	line  []byte // the line under way
	head  []byte // the head under way, without the request line
	old   bool   // the request under way is of HTTP/1.0, which may have no Host
	left  int64  // how much of the body or chunk is to come
}

// take takes in what a client said. It returns what may pass now: b itself, where
// nothing was held back or is.
func (r *requestStream) take(b []byte) (pass []byte, err error) {
	n := r.skip(b)
	if n == len(b) {
		return b, nil
	}
	pass, b = append(pass, b[:n]...), b[n:]
	for len(b) > 0 {
		n := r.skip(b)
		if n == 0 {
			n = r.addLine(b)
		}
		held := r.state == atHead
		if held {
			r.head = append(r.head, b[:n]...)
		} else {
			pass = append(pass, b[:n]...)
		}
		b = b[n:]
		if err := r.endLine(); err != nil {
			return nil, err
		}
		if held && r.state != atHead {
			pass, r.head = append(pass, r.head...), nil
		}
	}
	return pass, nil
}

// skip is how much of b needs no look.
func (r *requestStream) skip(b []byte) int {
	switch r.state {
	case atAny:
		return len(b)
	case atBody, atChunk:
	default:
		return 0
	}
	n := int(min(r.left, int64(len(b))))
	r.left -= int64(n)
	switch {
	case r.left > 0:
	case r.state == atBody:
		r.state = atLine
	default:
		r.state = atSize
	}
	return n
}

// addLine adds to the line under way up to its end, and returns how much that was.
func (r *requestStream) addLine(b []byte) int {
	n := len(b)
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		n = i + 1
	}
	r.line = append(r.line, b[:n]...)
	return n
}

// endLine looks at the line under way.
func (r *requestStream) endLine() error {
	text, whole := bytes.CutSuffix(r.line, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	switch {
	case r.state == atLine && !mayBeRequest(text, whole):
		r.enter(atAny)
	case len(r.line)+len(r.head) > maxFlight && (r.state == atLine || r.state == atHead):
		return errBadHead
	case len(r.line) > maxFlight:
		r.enter(atAny)
	case !whole:
	case r.state == atLine && len(text) > 0:
		r.old = bytes.HasSuffix(text, []byte("HTTP/1.0"))
		r.enter(atHead)
	case r.state == atHead && len(text) == 0:
		return r.endHead()
	case r.state == atSize:
		r.endSize(string(text))
	case r.state == atTrailer && len(text) == 0:
		r.enter(atLine)
	default:
		r.line = r.line[:0]
	}
	return nil
}

func (r *requestStream) enter(s requestState) { r.state, r.line = s, nil }

// endHead checks a whole head and finds out what follows it.
func (r *requestStream) endHead() error {
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(r.head))).ReadMIMEHeader()
	if err != nil {
		return errBadHead
	}
	hosts := header["Host"]
	if len(hosts) == 0 && !r.old {
		hosts = []string{""}
	}
	for _, host := range hosts {
		if !r.names.allow(host) {
			return &foreignHostError{host}
		}
	}
	coding := strings.ToLower(strings.Join(header["Transfer-Encoding"], ","))
	length := header.Get("Content-Length")
	switch {
	case header.Get("Upgrade") != "":
		r.enter(atAny)
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

// endSize reads the size of a chunk, which a line end follows.
func (r *requestStream) endSize(text string) {
	size, _, _ := strings.Cut(text, ";")
	r.enterBytes(atChunk, size, 16)
	switch r.state {
	case atChunk:
		r.left += int64(len("\r\n"))
	case atLine:
		r.enter(atTrailer)
	}
}

// enterBytes enters a stretch of so many bytes, if there are any.
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

// mayBeRequest reports whether text is, or begins, a request line that a browser may
// send to a server. What it sends to a proxy names another target than a path.
func mayBeRequest(text []byte, whole bool) bool {
	if len(text) == 0 {
		return true // empty lines may come before
	}
	method, rest, more := strings.Cut(string(text), " ")
	if method == "" || strings.Trim(method, methodChars) != "" {
		return false
	}
	if !more || rest == "" {
		return !whole
	}
	target, version, more := strings.Cut(rest, " ")
	if target == "" || target[0] != '/' && target[0] != '*' || strings.ContainsFunc(target, unicode.IsControl) {
		return false
	}
	const want = "HTTP/1."
	switch {
	case !more:
		return !whole
	case len(version) <= len(want):
		return !whole && strings.HasPrefix(want, version)
	}
	return len(version) == len(want)+1 && strings.HasPrefix(version, want) && '0' <= version[len(want)] && version[len(want)] <= '9'
}

// methodChars are what a method is made of; RFC 9110, section 5.6.2.
const methodChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
