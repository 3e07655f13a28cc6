package localsocket

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"tunctl/internal/peer"
)

// addr is the path of a socket, as the address of a pipe.
type addr string

func (addr) Network() string  { return "pipe" }
func (a addr) String() string { return string(a) }

// pipe is an open pipe whose reads and writes have deadlines.
type pipe interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Fd() uintptr
}

// conn is one end of a connection. A pipe has no half-close: an empty message is the end
// of a direction, and empty writes are not sent.
type conn struct {
	pipe
	addr        addr
	ended       atomic.Bool // the other end has closed its direction
	writeClosed atomic.Bool

	accepted bool // by a Listener: the other end must be the same user's
	once     sync.Once
	same     bool
}

// newConn takes ownership of an open pipe.
func newConn(h windows.Handle, path string) (*conn, error) {
	f, err := winio.NewOpenFile(h)
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(h))
	}
	return &conn{pipe: f.(pipe), addr: addr(path)}, nil
}

// Read implements net.Conn. A listener's client is checked once its first bytes are here:
// before that, Windows may not tell who it is.
func (c *conn) Read(p []byte) (int, error) {
	if c.ended.Load() {
		return 0, io.EOF
	}
	n, err := c.pipe.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		c.ended.Store(true)
	case errors.Is(err, windows.ERROR_MORE_DATA): // the rest of a message follows
		err = nil
	}
	if n > 0 && c.accepted {
		if c.once.Do(func() { c.same = peer.SameUser(c) }); !c.same {
			return 0, errors.Join(fs.ErrPermission, c.Close())
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.writeClosed.Load() {
		return 0, os.ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	return c.pipe.Write(p)
}

// CloseWrite ends what the other end reads.
func (c *conn) CloseWrite() error {
	if c.writeClosed.Swap(true) {
		return os.ErrClosed
	}
	_, err := c.pipe.Write(nil)
	return err
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.addr }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.addr }
