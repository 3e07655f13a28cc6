// Package kernel has a page's connection to its kernel, a WebSocket of Jupyter: it tells the relay
// inside the job which cells run and what the page has taken, so that both outlive the page.
package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
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
// has left since, the relay is told that first. One that has left gets nothing more: the next one gets it, too.
func (p *Page) Read(b []byte) (int, error) {
	p.settle()
	n, err := p.KernelConn.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left && n > 0 {
		n, err = p.KernelConn.Read(b) // it is closed
	}
	p.reading.server.Follow(b[:n])
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

// header is what of a message's header matters here.
type header struct {
	ID   string `json:"msg_id"`
	Type string `json:"msg_type"`
}

// message is what of a message of Jupyter's protocol matters here.
type message struct {
	Header   header
	Parent   header `json:"parent_header"`
	Metadata struct {
		Cell string `json:"cellId"`
	}
	Content struct {
		Code   string
		State  string `json:"execution_state"`
		Status string
	}
}

// parse reads a message: of JSON, or of v1.kernel.websocket.jupyter.org, which is the number of
// offsets, the offsets, and the channel, header, parent header, metadata and content between them.
// A part of another form is left out: such a message does not matter.
func parse(b []byte) (m message, ok bool) {
	if len(b) > 0 && b[0] == '{' {
		_ = json.Unmarshal(b, &m)
		return m, m.Header.Type != ""
	}
	const count, size = 6, 8
	if len(b) < (1+count)*size || binary.LittleEndian.Uint64(b) < count {
		return m, false
	}
	for i, part := range []any{&m.Header, &m.Parent, &m.Metadata, &m.Content} {
		from, to := binary.LittleEndian.Uint64(b[(2+i)*size:]), binary.LittleEndian.Uint64(b[(3+i)*size:])
		if from > to || to > uint64(len(b)) {
			return m, false
		}
		_ = json.Unmarshal(b[from:to], part)
	}
	return m, m.Header.Type != ""
}

// ends returns the id of the cell whose end the message tells; "" and true: that of all.
func (m *message) ends() (id string, ok bool) {
	isStatus := m.Header.Type == "status"
	if isStatus && (m.Content.State == "restarting" || m.Content.State == "dead" || m.Content.State == "autorestarting") {
		return "", true
	}
	isIdle := isStatus && m.Content.State == "idle" && m.Parent.Type == "execute_request"
	isAborted := m.Header.Type == "execute_reply" && m.Content.Status == "aborted"
	return m.Parent.ID, isIdle || isAborted
}
