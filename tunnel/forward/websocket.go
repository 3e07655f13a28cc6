package forward

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
)

// Of RFC 6455, section 5.2.
const (
	wsFinal, wsMasked = 0x80, 0x80
	wsOpcode          = 0x0f
	wsLength          = 0x7f
	wsPing, wsPong    = 9, 10
	wsControlLimit    = 125 // bytes in a control frame
)

// webSocket answers the pings of a client on its connection. A browser closes a WebSocket
// without a pong within seconds of a change of networks, when the way to the server is just
// being made again. The server gets the pings, too; a second pong is allowed.
type webSocket struct {
	conn   net.Conn
	client frames // used by who reads from the client

	// ping is what the client sent last and has no answer to; nil: none.
	ping atomic.Pointer[[]byte]

	writing sync.Mutex // while something is sent to the client
	server  frames
}

// read takes in what the client sent, and answers the last ping in it.
func (w *webSocket) read(b []byte) {
	if ping := w.client.follow(b); ping != nil {
		w.ping.Store(&ping)
		w.answer()
	}
}

// write sends what the server sent.
func (w *webSocket) write(b []byte) (int, error) {
	w.writing.Lock()
	n, err := w.conn.Write(b)
	w.server.follow(b[:n])
	w.writing.Unlock()
	w.answer()
	return n, err
}

// answer sends the pong that the client waits for, unless it is in the middle of something
// from the server. Who sends that calls it, too, after which no ping is left.
func (w *webSocket) answer() {
	for w.ping.Load() != nil && w.writing.TryLock() {
		between := w.server.between()
		if between {
			if ping := w.ping.Swap(nil); ping != nil { // else the other direction has just answered it
				_, _ = w.conn.Write(append([]byte{wsFinal | wsPong, byte(len(*ping))}, *ping...)) // if the client left, a read says so
			}
		}
		w.writing.Unlock()
		if !between {
			return
		}
	}
}

// frames follows what one side of a WebSocket sends: a head of HTTP, then frames.
type frames struct {
	phase phase
	head  []byte // of HTTP or of a frame, as far as it came
	kind  byte
	mask  []byte
	left  uint64 // bytes of the frame that come yet
	ping  []byte // the payload of a ping, as far as it came
}

// phase is what a side of a WebSocket sends now.
type phase int

const (
	inHTTP phase = iota
	betweenFrames
	inFrame
	unreadable // it is no WebSocket
)

// between reports whether a frame may be inserted now.
func (f *frames) between() bool { return f.phase == betweenFrames && len(f.head) == 0 }

// follow takes in what comes next, and returns the last ping that ends in it; nil: none.
func (f *frames) follow(b []byte) (ping []byte) {
	for len(b) > 0 && f.phase != unreadable {
		switch f.phase {
		case inHTTP:
			b = f.followHTTP(b)
			continue
		case betweenFrames:
			n := min(f.headSize()-len(f.head), len(b))
			f.head, b = append(f.head, b[:n]...), b[n:]
			if len(f.head) < f.headSize() {
				continue
			}
			f.beginFrame()
		}
		n := int(min(f.left, uint64(len(b))))
		if f.kind == wsPing {
			f.ping = append(f.ping, b[:n]...)
		}
		b, f.left = b[n:], f.left-uint64(n)
		if f.left == 0 && f.phase == inFrame {
			f.phase = betweenFrames
			if f.kind == wsPing {
				ping = f.unmasked()
			}
		}
	}
	return ping
}

// followHTTP skips the head of the request, or of the response that agrees.
func (f *frames) followHTTP(b []byte) (rest []byte) {
	before := len(f.head)
	f.head = append(f.head, b...)
	switch end := bytes.Index(f.head, []byte("\r\n\r\n")); {
	case end >= 0 && (bytes.HasPrefix(f.head, []byte("GET ")) || bytes.HasPrefix(f.head, []byte("HTTP/1.1 101 "))):
		f.phase, f.head = betweenFrames, nil
		return b[end+4-before:]
	case end >= 0 || len(f.head) > maxPreread:
		f.phase, f.head = unreadable, nil
	}
	return nil
}

// headSize is the size of the frame's head, as far as that is known.
func (f *frames) headSize() int {
	if len(f.head) < 2 {
		return 2
	}
	size := 2
	switch f.head[1] & wsLength {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.head[1]&wsMasked != 0 {
		size += 4
	}
	return size
}

func (f *frames) beginFrame() {
	length, rest := uint64(f.head[1]&wsLength), f.head[2:]
	switch length {
	case 126:
		length, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
	case 127:
		length, rest = binary.BigEndian.Uint64(rest), rest[8:]
	}
	f.phase, f.kind, f.mask, f.left = inFrame, f.head[0]&wsOpcode, rest, length
	f.head, f.ping = nil, []byte{}
	if f.kind == wsPing && length > wsControlLimit {
		f.phase = unreadable
	}
}

// unmasked is the payload of a ping as it was before the client masked it.
func (f *frames) unmasked() []byte {
	for i := range f.ping {
		if len(f.mask) > 0 {
			f.ping[i] ^= f.mask[i%4]
		}
	}
	return f.ping
}
