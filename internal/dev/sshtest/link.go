package sshtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is two connected ends in memory, with buffers as TCP has, which net.Pipe
// has not: both ends of an SSH handshake write first.
type link struct {
	moved func(int) // gets how many bytes have arrived

	mu     sync.Mutex
	cond   *sync.Cond
	paused bool
	hungUp bool    // the client gets nothing any more, and may send
	cut    bool    // reads and writes of both ends fail
	closed [2]bool // by the end that reads that way
	way    [2]bytes.Buffer
}

var errCut = errors.New("connection reset by peer")

type linkEnd struct {
	*link
	in, out int
}

// NewLink returns the two ends of a connection.
func NewLink() (client, server net.Conn) {
	client, server, _ = newLink()
	return client, server
}

// newLink returns the two ends of a connection that can be paused and cut.
func newLink() (client, server net.Conn, l *link) {
	l = &link{moved: func(int) {}}
	l.cond = sync.NewCond(&l.mu)
	return &linkEnd{l, 0, 1}, &linkEnd{l, 1, 0}, l
}

func (l *link) setPaused(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = on
	l.cond.Broadcast()
}

func (l *link) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.cond.Broadcast()
}

func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hungUp = true
	l.cond.Broadcast()
}

func (e *linkEnd) Read(p []byte) (int, error) {
	n, err := e.read(p)
	e.moved(n)
	return n, err
}

func (e *linkEnd) read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.cut {
			return 0, errCut
		}
		if e.hungUp && e.in == 0 {
			return 0, io.EOF
		}
		if e.way[e.in].Len() > 0 && !e.paused {
			return e.way[e.in].Read(p)
		}
		if e.closed[e.in] {
			return 0, net.ErrClosed
		}
		if e.closed[e.out] && !e.paused {
			return 0, io.EOF
		}
		e.cond.Wait()
	}
}

func (e *linkEnd) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut {
		return 0, errCut
	}
	if e.closed[e.in] || e.closed[e.out] && !e.paused {
		return 0, net.ErrClosed
	}
	e.cond.Broadcast()
	return e.way[e.out].Write(p)
}

func (e *linkEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed[e.in] = true
	e.cond.Broadcast()
	return nil
}

func (e *linkEnd) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

func (e *linkEnd) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 22} }
func (e *linkEnd) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (e *linkEnd) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (e *linkEnd) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
