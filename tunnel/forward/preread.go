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
	"sync"
	"time"
)

// maxFlight bounds what is read from a client before the far side answers. No
// server takes longer request heads.
const maxFlight = 64 << 10

// flight is the first thing a client says, read while the far side is still being
// reached. It is kept whole, so that it can be sent again, and tells when the
// client leaves.
type flight struct {
	conn net.Conn
	done chan struct{} // closed when reading has ended

	mu      sync.Mutex
	buf     []byte
	skipped int           // bytes of buf that were passed on already
	err     error         // how the client ended its side, if it did
	more    chan struct{} // closed and replaced when buf grows
}

// readFlight starts to read what a client says. It ends by stop, or when conn is
// closed; whoever started it waits for done.
func readFlight(conn net.Conn) *flight {
	f := &flight{conn: conn, done: make(chan struct{}), more: make(chan struct{})}
	go f.read()
	return f
}

func (f *flight) read() {
	defer close(f.done)
	chunk := make([]byte, 4<<10)
	for size := 0; size < maxFlight; {
		n, err := f.conn.Read(chunk[:min(len(chunk), maxFlight-size)])
		size += n
		f.add(chunk[:n], err)
		if err != nil {
			return
		}
	}
}

func (f *flight) add(b []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = append(f.buf, b...)
	if !errors.Is(err, os.ErrDeadlineExceeded) { // which is stop's doing
		f.err = err
	}
	close(f.more)
	f.more = make(chan struct{})
}

// stop ends the reading and returns the client's end for a relay, as if nobody
// had read from it.
func (f *flight) stop() *end {
	_ = f.conn.SetReadDeadline(time.Unix(1, 0))
	<-f.done
	_ = f.conn.SetReadDeadline(time.Time{})
	return &end{Conn: f.conn, ahead: f.buf[f.skipped:], err: f.err}
}

// peek returns what the client said so far, and a channel that tells of more.
func (f *flight) peek() (said []byte, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf, f.more
}

// skip says that the first n bytes were passed on.
func (f *flight) skip(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skipped = n
}

// gone reports whether the client has broken the connection. One that only
// finished sending may still want its answer.
func (f *flight) gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil && f.err != io.EOF //nolint:errorlint // a wrapped one is a failure
}

// ended reports whether the client said that no more follows.
func (f *flight) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err == io.EOF //nolint:errorlint // a wrapped one is a failure
}

// opening waits until the client's first words can be judged, for as long as ctx
// allows.
func (f *flight) opening(ctx context.Context) opening {
	for {
		said, more := f.peek()
		if o := judge(said); o.kind != unfinished {
			return o
		}
		select {
		case <-more:
		case <-f.done:
			said, _ := f.peek()
			return judge(said)
		case <-ctx.Done():
			return opening{}
		}
	}
}

// openingKind is what a client's first words are.
type openingKind int

const (
	unfinished openingKind = iota // nothing yet, or the beginning of a request
	repeatable                    // may be said twice: nothing happens at the server by it
	single                        // may be said only once
)

// opening is a client's first words, judged.
type opening struct {
	kind openingKind
	req  *http.Request // nil if it is not HTTP
}

// judge tells what a client's first words are.
func judge(b []byte) opening {
	const tlsHandshake = 0x16
	switch {
	case len(b) == 0:
		return opening{}
	case b[0] == tlsHandshake: // the hello, before any early data
		return opening{kind: repeatable}
	case b[0] < 'A' || b[0] > 'Z':
		return opening{kind: single}
	case !bytes.Contains(b, []byte("\r\n\r\n")):
		if len(b) >= maxFlight {
			return opening{kind: single}
		}
		return opening{}
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return opening{kind: single}
	}
	// The safe methods of RFC 9110, section 9.2.1, without a body.
	safe := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, req.Method)
	if safe && req.ContentLength == 0 && req.TransferEncoding == nil {
		return opening{repeatable, req}
	}
	return opening{single, req}
}
