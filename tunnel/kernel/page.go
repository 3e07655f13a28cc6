// Package kernel has a page's connection to its kernel, a WebSocket of Jupyter: it tells the relay
// inside the job which cells run and what the page has taken, so that both outlive the page.
package kernel

import (
	"bytes"
	"net"
	"sync"

	"tunctl/tunnel/step"
	"tunctl/tunnel/websocket"
)

const (
	// mostRequest is the longest message of a page that is read and sent as a whole.
	mostRequest = 16 << 20
	// mostEnd is the longest message of a server that may tell the end of a cell.
	mostEnd = 16 << 10
)

// Page is a page's connection to its kernel, as the page sees it.
type Page struct {
	*step.KernelConn

	reading struct {
		server websocket.Frames
		taken  uint64   // as the relay knows it
		ended  []string // the cells whose end the page gets now
	}

	writing struct {
		page websocket.Frames
		kept []byte // of a message that is not complete
		sent uint64 // the frames before it
		err  error
	}

	mu       sync.Mutex
	farewell []byte // the answer to the page's close frame
	sending  bool   // what was read is on its way to the page
	left     bool   // the page has gone
}

// New returns the connection of a page whose server this is.
func New(conn *step.KernelConn, server *Server) *Page {
	p := &Page{KernelConn: conn}
	p.reading.server.Limit, p.reading.server.Message = mostEnd, p.received
	p.writing.page.Limit, p.writing.page.Message = mostRequest, p.requested
	p.writing.page.SkipHead()
	go server.tellNotebook(conn.Run)
	return p
}

// Read reads what the page gets. That it reads again says that the page has what was read before: of a page that
// has left since, the relay is told that first.
func (p *Page) Read(b []byte) (int, error) {
	p.settle()
	n, err := p.KernelConn.Read(b)
	p.reading.server.Follow(b[:n])
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && n == 0 && p.reading.server.Between() {
		n = copy(b, p.farewell)
		if p.farewell = nil; n > 0 {
			err = nil
		}
	}
	p.sending = n > 0
	return n, err
}

// settle tells the relay what the page has, and then that it has left.
func (p *Page) settle() {
	r := &p.reading
	if r.server.Whole > r.taken {
		r.taken = r.server.Whole
		p.Taken(r.taken)
	}
	for _, id := range r.ended {
		p.Done(id)
	}
	r.ended = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending = false; p.left {
		_ = p.Close()
	}
}

// received takes in a message that the page gets.
func (p *Page) received(_ byte, b []byte) {
	if !bytes.Contains(b, []byte("execution_state")) && !bytes.Contains(b, []byte("aborted")) {
		return
	}
	if m, ok := parse(b); ok {
		if id, ends := m.ends(); ends {
			p.reading.ended = append(p.reading.ended, id)
		}
	}
}

// Write passes on what the page sends, whole messages at a time: the next page could not complete one.
func (p *Page) Write(b []byte) (int, error) {
	w := &p.writing
	w.kept = append(w.kept, b...)
	w.page.Follow(b)
	if w.err == nil && (len(w.kept) > mostRequest || !w.page.Readable()) {
		p.pass(w.sent + uint64(len(w.kept)))
	}
	return len(b), w.err
}

// requested takes in a message of the page when it is complete.
func (p *Page) requested(kind byte, b []byte) {
	w := &p.writing
	if kind == websocket.Close {
		p.leave(b)
		return
	}
	if bytes.Contains(b, []byte("execute_request")) {
		if m, ok := parse(b); ok && m.Header.Type == "execute_request" {
			p.Run(step.Cell{ID: m.Header.ID, Code: m.Content.Code, Cell: m.Metadata.Cell})
		}
	}
	p.pass(w.page.Whole)
}

// pass writes the page's frames up to a position to the server.
func (p *Page) pass(to uint64) {
	w := &p.writing
	if w.err != nil || to <= w.sent {
		return
	}
	n := to - w.sent
	_, w.err = p.KernelConn.Write(w.kept[:n])
	w.kept, w.sent = w.kept[n:], to
	if len(w.kept) == 0 {
		w.kept = nil // it may have been much
	}
}

// leave answers the page's close frame, and leaves the server's side to the relay.
func (p *Page) leave(payload []byte) {
	p.mu.Lock()
	p.farewell = append([]byte{websocket.Final | websocket.Close, byte(min(2, len(payload)))}, payload[:min(2, len(payload))]...)
	p.mu.Unlock()
	p.writing.err = net.ErrClosed
	_ = p.CloseWrite()
}

// CloseWrite says that the page is gone: a WebSocket is never closed by half.
func (p *Page) CloseWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left = true; !p.sending {
		_ = p.Close()
	}
	return nil
}
