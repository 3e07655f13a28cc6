package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/tunnel/tcpinfo"
	"tunctl/tunnel/websocket"
)

const (
	// idleBuffer is what a direction holds while it waits. Thousands of idle
	// connections are normal (keep-alive, websockets), so it is small.
	idleBuffer = 8 << 10
	// busyBuffer is what a direction in full flow copies through. Together with
	// the transport's own large reads it is worth a third of the throughput.
	busyBuffer = 256 << 10
	// stayBusy is how much a read into a busy buffer must return to keep it.
	stayBusy = idleBuffer
	// maxBusy bounds the busy buffers of one forward, so that many slow readers
	// cost 8 MB at most. Without one a direction keeps its idle buffer.
	maxBusy = 32
	// drainFor is how long the server of a WebSocket may take to end it.
	drainFor = 2 * time.Second
)

// buffers are the busy buffers of one forward's connections.
type buffers struct {
	busy atomic.Int32
	pool sync.Pool
}

// get returns a busy buffer, or nil when all are in use.
func (b *buffers) get() *[busyBuffer]byte {
	if b.busy.Add(1) > maxBusy {
		b.busy.Add(-1)
		return nil
	}
	if buf, ok := b.pool.Get().(*[busyBuffer]byte); ok {
		return buf
	}
	return new([busyBuffer]byte)
}

// put returns a buffer; nil is none.
func (b *buffers) put(buf *[busyBuffer]byte) {
	if buf != nil {
		b.pool.Put(buf)
		b.busy.Add(-1)
	}
}

// relayConn is one end of a relayed connection, with what was already read from it.
type relayConn struct {
	net.Conn
	buffered []byte // read before the relay began
	readErr  error  // how reading ended before the relay began; nil if it did not
	// away reports whether the other end cannot be reached now, though the connection to it
	// may still live; nil: never.
	away func() bool
	// webSocket is set where the client asked for one.
	webSocket *webSocket
	direct    bool // see DirectConn

	answered    atomic.Bool // bytes came for it since it last sent some
	written     bool        // bytes came for it; used by who writes to it
	writeClosed atomic.Bool
}

// errAway ends a client's connection on which a request would wait for a link that is down.
// A browser sends it again over another connection, which gets the waiting page.
var errAway = errors.New("the link is down, and the request can be repeated")

// Read returns what is buffered, then reads from the connection.
func (c *relayConn) Read(p []byte) (int, error) {
	n, err := c.read(p)
	if c.webSocket != nil {
		c.webSocket.read(p[:n])
	}
	return n, err
}

func (c *relayConn) read(p []byte) (int, error) {
	if len(c.buffered) > 0 {
		n := copy(p, c.buffered)
		if c.buffered = c.buffered[n:]; len(c.buffered) == 0 {
			c.buffered = nil
		}
		return n, nil
	}
	if c.readErr != nil {
		return 0, c.readErr
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.away != nil && c.answered.Swap(false) && c.away() {
		if r := classify(p[:n]); r.kind == repeatable && r.http != nil {
			return 0, errAway
		}
	}
	return n, err
}

// Write notes that the other end answered.
func (c *relayConn) Write(p []byte) (int, error) {
	c.answered.Store(true)
	c.written = true
	if c.webSocket != nil {
		return c.webSocket.write(p)
	}
	return c.Conn.Write(p)
}

// closeWrite half-closes the connection, once.
func (c *relayConn) closeWrite() {
	if !c.writeClosed.Swap(true) {
		closeWrite(c.Conn)
	}
}

// wasReset reports whether an end of file from c was in fact a reset. The system reports
// a reset once: after a write got it, a read gets an end of file. Where writing is
// closed, no write can have got it.
func (c *relayConn) wasReset() bool {
	info, _ := tcpinfo.Read(unchecked(c.Conn))
	return info.Reset && !c.writeClosed.Load()
}

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

// relay copies both ways between two connections until both directions have ended, and
// closes them. An end of file is passed on as a half-close, so that a client can finish
// its request and still read the answer; a failed read is passed on as a reset, so that
// nobody takes a broken stream for a complete one.
//
// When ctx ends, both are reset. The server of a WebSocket is first told that its client leaves,
// and what it has sent until then is delivered: Jupyter keeps what follows for the same page.
//
// Unanswered is set if the remote end closed first, without a byte, although local had sent some.
func relay(ctx context.Context, local, remote *relayConn, bufs *buffers, count *counters) (unanswered bool) {
	end := func() {
		reset(local.Conn)
		reset(remote.Conn)
	}
	stop := context.AfterFunc(ctx, func() {
		if local.webSocket == nil {
			end()
			return
		}
		time.AfterFunc(drainFor, end)
		remote.closeWrite()
	})
	defer stop()

	var up sync.WaitGroup
	up.Go(func() { relayOneWay(remote, local, bufs, count.sent) })
	unanswered = relayOneWay(local, remote, bufs, count.received) && !local.written && remote.answered.Load()
	up.Wait()
	_ = local.Close()
	_ = remote.Close()
	return unanswered
}

// relayOneWay copies one direction to its end and passes that end on. It reports whether src ended before it was told of
// an end of dst.
func relayOneWay(dst, src *relayConn, bufs *buffers, count func(int)) (first bool) {
	readErr, writeErr := copyBytes(dst, src, bufs, count)
	switch {
	case writeErr != nil:
		// Nobody reads these bytes any more. What comes the other way is delivered
		// first; the sender notices as it would directly, by a reset once its bytes
		// stay unread.
	case readErr == io.EOF && !src.wasReset(): //nolint:errorlint // a wrapped one is a failure
		first = !src.writeClosed.Load() // before dst, which may answer with its own end, hears of it
		dst.closeWrite()
	default:
		reset(dst.Conn)
		reset(src.Conn)
	}
	return first
}

// copyBytes copies until either side fails. Exactly one of its errors is set; an
// ordinary end is a readErr of io.EOF.
func copyBytes(dst io.Writer, src io.Reader, bufs *buffers, count func(int)) (readErr, writeErr error) {
	idle := make([]byte, idleBuffer)
	buf := idle
	var busy *[busyBuffer]byte
	defer func() { bufs.put(busy) }()
	for {
		n, err := src.Read(buf)
		if n > 0 {
			count(n)
			if _, err := dst.Write(buf[:n]); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return err, nil
		}
		switch {
		case busy == nil && n == len(idle):
			if busy = bufs.get(); busy != nil {
				buf = busy[:]
			}
		case busy != nil && n < stayBusy:
			bufs.put(busy)
			busy, buf = nil, idle
		}
	}
}

// closeWrite half-closes c. A connection that has no half-close is closed.
func closeWrite(c net.Conn) {
	if h, ok := unchecked(c).(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = c.Close()
}

// reset closes c so that its peer sees a failure, where the transport can show one
// (TCP's RST), and not the end of a complete stream.
func reset(c net.Conn) {
	if l, ok := unchecked(c).(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}
