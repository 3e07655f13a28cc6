package forward

import (
	"net"
	"sync"
	"sync/atomic"

	"tunctl/tunnel/websocket"
)

// webSocket answers the pings of a client on its connection. A browser closes a WebSocket
// without a pong within seconds of a change of networks, when the way to the server is just
// being made again. The server gets the pings, too; a second pong is allowed.
type webSocket struct {
	conn   net.Conn
	client websocket.Frames // used by who reads from the client

	// ping is what the client sent last and has no answer to; nil: none.
	ping atomic.Pointer[[]byte]

	writing sync.Mutex // while something is sent to the client
	server  websocket.Frames
}

func newWebSocket(conn net.Conn) *webSocket {
	w := &webSocket{conn: conn}
	w.client.Message = func(kind byte, payload []byte) {
		if kind == websocket.Ping {
			w.ping.Store(&payload)
		}
	}
	return w
}

// read takes in what the client sent, and answers the last ping in it.
func (w *webSocket) read(b []byte) {
	w.client.Follow(b)
	w.answer()
}

// write sends what the server sent.
func (w *webSocket) write(b []byte) (int, error) {
	w.writing.Lock()
	n, err := w.conn.Write(b)
	w.server.Follow(b[:n])
	w.writing.Unlock()
	w.answer()
	return n, err
}

// answer sends the pong that the client waits for, unless it is in the middle of something
// from the server. Who sends that calls it, too, after which no ping is left.
func (w *webSocket) answer() {
	for w.ping.Load() != nil && w.writing.TryLock() {
		between := w.server.Between()
		if between {
			if ping := w.ping.Swap(nil); ping != nil { // else the other direction has just answered it
				_, _ = w.conn.Write(append([]byte{websocket.Final | websocket.Pong, byte(len(*ping))}, *ping...)) // if the client left, a read says so
			}
		}
		w.writing.Unlock()
		if !between {
			return
		}
	}
}
