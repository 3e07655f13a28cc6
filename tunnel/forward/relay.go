package forward

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// idleBuffer is what a direction holds while it waits. Thousands of idle
	// connections are normal (keep-alive, websockets), so it is small.
	idleBuffer = 8 << 10
	// busyBuffer is what a direction in full flow copies through. Together with
	// the transport's own large reads it is worth a third of the throughput.
	busyBuffer = 256 << 10
	// stayBusy is how much a read through a busy buffer must bring to keep it.
	stayBusy = idleBuffer
	// maxBusy bounds the busy buffers of one forward, so that many slow readers
	// cost 8 MB at most. Without one a direction goes on in small steps.
	maxBusy = 32
)

// buffers lends copy buffers to the connections of one forward.
type buffers struct {
	busy atomic.Int32
	pool sync.Pool
}

// borrow returns a busy buffer, or nil when all are lent.
func (b *buffers) borrow() *[busyBuffer]byte {
	if b.busy.Add(1) > maxBusy {
		b.busy.Add(-1)
		return nil
	}
	if buf, ok := b.pool.Get().(*[busyBuffer]byte); ok {
		return buf
	}
	return new([busyBuffer]byte)
}

// giveBack ends a loan; nil is no loan.
func (b *buffers) giveBack(buf *[busyBuffer]byte) {
	if buf != nil {
		b.pool.Put(buf)
		b.busy.Add(-1)
	}
}

// end is one end of a relayed connection, with what was already read from it.
type end struct {
	net.Conn
	ahead []byte // read before the relay began
	err   error  // how reading ended before the relay began; nil if it did not

	finished atomic.Bool // no more is sent to it
}

// Read returns what was read ahead, then what the connection brings.
func (e *end) Read(p []byte) (int, error) {
	if len(e.ahead) > 0 {
		n := copy(p, e.ahead)
		if e.ahead = e.ahead[n:]; len(e.ahead) == 0 {
			e.ahead = nil
		}
		return n, nil
	}
	if e.err != nil {
		return 0, e.err
	}
	return e.Conn.Read(p)
}

// broken reports whether the end of what e sent was a reset after all. The system
// tells of one once: if a write was told, reading ends as if all had been sent.
// Where nothing more is sent, there is no write that could have been.
func (e *end) broken() bool { return wasReset(e.Conn) && !e.finished.Load() }

// relay carries bytes both ways between the two ends until both directions have
// ended, and closes both. An end of file is passed on as a half-close, so that a
// client may finish its request and still read the answer; a failed read is
// passed on as a reset, so that nobody takes a broken stream for a whole one.
func relay(ctx context.Context, local, remote *end, bufs *buffers, count *counters) {
	stop := context.AfterFunc(ctx, func() {
		reset(local.Conn)
		reset(remote.Conn)
	})
	defer stop()

	var up sync.WaitGroup
	up.Go(func() { pump(remote, local, bufs, count.sent) })
	pump(local, remote, bufs, count.received)
	up.Wait()
	_ = local.Close()
	_ = remote.Close()
}

// pump carries one direction to its end and passes that end on.
func pump(dst, src *end, bufs *buffers, count func(int)) {
	readErr, writeErr := carry(dst, src, bufs, count)
	switch {
	case writeErr != nil:
		// Nobody takes these bytes any more. What still comes the other way is
		// delivered first; the sender learns of the loss as it would directly,
		// by a reset once its bytes lie unread.
		return
	case readErr == io.EOF && !src.broken(): //nolint:errorlint // a wrapped one is a failure
		dst.finished.Store(true)
		closeWrite(dst.Conn)
	default:
		reset(dst.Conn)
		reset(src.Conn)
	}
}

// carry copies until either side fails. Exactly one of its errors is set, and an
// ordinary end is a readErr of io.EOF.
func carry(dst io.Writer, src io.Reader, bufs *buffers, count func(int)) (readErr, writeErr error) {
	idle := make([]byte, idleBuffer)
	buf := idle
	var busy *[busyBuffer]byte
	defer func() { bufs.giveBack(busy) }()
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
			if busy = bufs.borrow(); busy != nil {
				buf = busy[:]
			}
		case busy != nil && n < stayBusy:
			bufs.giveBack(busy)
			busy, buf = nil, idle
		}
	}
}

// closeWrite says that no more bytes follow. What cannot be half-closed is closed.
func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = c.Close()
}

// reset closes c so that its peer sees a failure where the transport has one to
// show (TCP's RST), rather than the end of a whole stream.
func reset(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = c.Close()
}
