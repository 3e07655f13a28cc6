package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxPreread bounds what is read from a client before the target answers. No server
// accepts longer request heads.
const maxPreread = 64 << 10

// preread reads what a client sends first, while the connection to the target is being
// opened. It keeps all of it, so that it can be sent again, and notices when the client
// leaves.
type preread struct {
	conn net.Conn
	done chan struct{} // closed when reading has ended

	mu      sync.Mutex
	buf     []byte
	skipped int           // bytes of buf that were passed on already
	err     error         // how the client ended its side, if it did
	more    chan struct{} // closed and replaced when buf grows
}

// startPreread starts to read from a client. It ends with stop, or when conn is closed;
// the caller waits for done.
func startPreread(conn net.Conn) *preread {
	p := &preread{conn: conn, done: make(chan struct{}), more: make(chan struct{})}
	go p.read()
	return p
}

func (p *preread) read() {
	defer close(p.done)
	chunk := make([]byte, 4<<10)
	for size := 0; size < maxPreread; {
		n, err := p.conn.Read(chunk[:min(len(chunk), maxPreread-size)])
		size += n
		p.add(chunk[:n], err)
		if err != nil {
			return
		}
	}
}

func (p *preread) add(b []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = append(p.buf, b...)
	if !errors.Is(err, os.ErrDeadlineExceeded) { // that is stop's deadline
		p.err = err
	}
	close(p.more)
	p.more = make(chan struct{})
}

// stop ends the reading and returns the client's connection for a relay, as if nothing
// had been read from it.
func (p *preread) stop() *relayConn {
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	_ = p.conn.SetReadDeadline(time.Time{})
	c := &relayConn{Conn: p.conn, buffered: p.buf[p.skipped:], readErr: p.err}
	if classify(p.buf).isWebSocket() {
		c.webSocket = newWebSocket(p.conn)
		c.webSocket.read(p.buf[:p.skipped])
	}
	return c
}

// peek returns what the client has sent so far, and a channel that is closed when there
// is more.
func (p *preread) peek() (sent []byte, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf, p.more
}

// skip marks the first n bytes as passed on.
func (p *preread) skip(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skipped = n
}

// gone reports whether the client has broken the connection. A client that has only
// finished sending may still expect an answer.
func (p *preread) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil && p.err != io.EOF //nolint:errorlint // a wrapped one is a failure
}

// finished reports whether the client has finished sending.
func (p *preread) finished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err == io.EOF //nolint:errorlint // a wrapped one is a failure
}

// request waits until the first request can be classified, or until ctx ends.
func (p *preread) request(ctx context.Context) firstRequest {
	for {
		sent, more := p.peek()
		if r := classify(sent); r.kind != incomplete {
			return r
		}
		select {
		case <-more:
		case <-p.done:
			sent, _ := p.peek()
			return classify(sent)
		case <-ctx.Done():
			return firstRequest{}
		}
	}
}

// requestKind says whether a request may be sent again over another connection.
type requestKind int

const (
	incomplete requestKind = iota // nothing yet, or the beginning of a request
	repeatable                    // it changes nothing at the server
	single                        // it must not reach a server twice
)

// firstRequest is what a client has sent first, classified.
type firstRequest struct {
	kind requestKind
	http *http.Request // nil if it is not HTTP
}

// isUpgrade reports whether the request asks for another protocol (RFC 9110, section 7.8).
func (r firstRequest) isUpgrade() bool { return r.http != nil && r.http.Header.Get("Upgrade") != "" }

// isWebSocket reports whether that protocol is WebSocket.
func (r firstRequest) isWebSocket() bool {
	return r.http != nil && strings.EqualFold(r.http.Header.Get("Upgrade"), "websocket")
}

// Repeatable reports whether what a client has sent first may reach a server twice.
func Repeatable(request []byte) bool { return classify(request).kind == repeatable }

// classify classifies the bytes that a client has sent first.
func classify(b []byte) firstRequest {
	const tlsHandshake = 0x16
	switch {
	case len(b) == 0:
		return firstRequest{}
	case b[0] == tlsHandshake: // the hello, before any early data
		return firstRequest{kind: repeatable}
	case b[0] < 'A' || b[0] > 'Z':
		return firstRequest{kind: single}
	case !bytes.Contains(b, []byte("\r\n\r\n")):
		if len(b) >= maxPreread {
			return firstRequest{kind: single}
		}
		return firstRequest{}
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return firstRequest{kind: single}
	}
	// The safe methods of RFC 9110, section 9.2.1, without a body.
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, req.Method)
	if safe && req.ContentLength == 0 && req.TransferEncoding == nil {
		return firstRequest{repeatable, req}
	}
	return firstRequest{single, req}
}
