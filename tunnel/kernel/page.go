// Package kernel has a page's connection to its kernel, a WebSocket of Jupyter: it tells the relay
// inside the job which cells run and what the page has taken, so that both outlive the page.
package kernel

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // RFC 6455, section 1.3, asks for it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"regexp"
	"sync"

	"tunctl/tunnel/step"
	"tunctl/tunnel/websocket"
)

var accept = regexp.MustCompile(`(?i)(\r\nSec-WebSocket-Accept:[ \t]*)[^\r\n]*`)

const (
	// mostRequest is the longest message of a page that is read and sent as a whole.
	mostRequest = 16 << 20
	// mostEnd is the longest message of a server that may tell the end of a cell.
	mostEnd = 16 << 10
	// mostHead is the longest head of a server's answer, as the relay has it, with some of what follows.
	mostHead = 128 << 10
)

// Page is a page's connection to its kernel, as the page sees it.
type Page struct {
	*step.KernelConn
	key string // of a page that continues: the server's answer was for another one; "": it is new

	reading struct {
		server websocket.Frames
		answer []byte   // to a page that continues
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
}

// New returns the connection of a page that asked by a request. If it continues, the server's answer is that to
// the first request.
func New(conn *step.KernelConn, r Request, server *Server, continues bool) *Page {
	p := &Page{KernelConn: conn}
	if continues {
		p.key = r.Header.Get("Sec-WebSocket-Key")
	}
	p.reading.server.Limit, p.reading.server.Message = mostEnd, p.received
	p.writing.page.Limit, p.writing.page.Message = mostRequest, p.requested
	p.writing.page.SkipHead()
	go server.tellNotebook(conn.Run)
	return p
}

// Read reads what the page gets. That it reads again says that the page has what was read before.
func (p *Page) Read(b []byte) (int, error) {
	r := &p.reading
	p.settle()
	if p.key != "" {
		if err := p.readAnswer(); err != nil {
			return 0, err
		}
	}
	if len(r.answer) > 0 {
		n := copy(b, r.answer)
		r.answer = r.answer[n:]
		r.server.Follow(b[:n])
		return n, nil
	}
	n, err := p.KernelConn.Read(b)
	r.server.Follow(b[:n])
	if err != nil && n == 0 && r.server.Between() {
		p.mu.Lock()
		defer p.mu.Unlock()
		n = copy(b, p.farewell)
		if p.farewell = nil; n > 0 {
			err = nil
		}
	}
	return n, err
}

// settle tells the relay what the page has.
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
}

// readAnswer reads the server's answer to the page as it was, and makes it one to the page that came back.
func (p *Page) readAnswer() error {
	var head []byte
	buf := make([]byte, 4<<10)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := p.KernelConn.Read(buf)
		if head = append(head, buf[:n]...); err != nil || len(head) > mostHead {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
	}
	sum := sha1.Sum([]byte(p.key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	end := bytes.Index(head, []byte("\r\n\r\n"))
	p.reading.answer = append(accept.ReplaceAll(head[:end], []byte("${1}"+base64.StdEncoding.EncodeToString(sum[:]))), head[end:]...)
	p.key = ""
	return nil
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
	_ = p.Close()
}

// CloseWrite says that the page is gone: a WebSocket is never closed by half.
func (p *Page) CloseWrite() error { return p.Close() }

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
