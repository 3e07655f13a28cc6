package localsocket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"tunctl/internal/ctxtime"
	"tunctl/internal/peer"
)

const (
	busyPoll   = 10 * time.Millisecond
	pipeBuffer = 64 << 10 // of one direction
)

// pipeName is the named pipe for a socket's path, at which there is no file: a unix socket
// of Windows 10 tells neither end who the other is.
func pipeName(path string) (string, error) {
	user, err := peer.CurrentUser()
	if err != nil {
		return "", err
	}
	// The file system ignores case.
	sum := sha256.Sum256([]byte(user.String() + "\n" + strings.ToLower(filepath.Clean(path))))
	return `\\.\pipe\tunctl-` + hex.EncodeToString(sum[:16]), nil
}

// Dial connects to the pipe of a socket's path. Nothing is sent to a pipe of another user:
// the error wraps ErrForeign and says who serves it.
func Dial(ctx context.Context, path string) (Conn, error) {
	c, err := dial(ctx, path)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: err} // as package net does
	}
	return c, nil
}

func dial(ctx context.Context, path string) (*conn, error) {
	pipe, err := pipeName(path)
	if err != nil {
		return nil, err
	}
	h, err := open(ctx, pipe)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(h, pipe); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(h))
	}
	return newConn(h, path)
}

// NobodyListens reports whether an error of Dial means that.
func NobodyListens(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// open opens a pipe so that its server can learn who we are and not act as us. It waits
// for its turn while the server is between two clients.
func open(ctx context.Context, pipe string) (windows.Handle, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	name, err := windows.UTF16PtrFromString(pipe)
	if err != nil {
		return 0, err
	}
	for {
		h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
			windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_IDENTIFICATION, 0)
		if !errors.Is(err, windows.ERROR_PIPE_BUSY) {
			return h, err
		}
		if err := ctxtime.Sleep(ctx, busyPoll); err != nil {
			return 0, err
		}
	}
}

// checkOwner refuses a pipe that another user made.
func checkOwner(h windows.Handle, pipe string) error {
	owner, err := peer.PipeOwner(h)
	if err != nil {
		return fmt.Errorf("cannot tell whose pipe %s is: %w", pipe, err)
	}
	user, err := peer.CurrentUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user) {
		return fmt.Errorf("the pipe %s is served by %s: %w", pipe, peer.PipeServer(h, owner), ErrForeign)
	}
	return nil
}

// Listener is the agent's end of the pipe. The listener of go-winio is not used: under
// Wine, its first client gets an instance of the pipe that is never served and hangs, so
// nothing about it could be shown there.
type Listener struct {
	path, pipe string
	security   windows.SecurityAttributes
	closed     windows.Handle // an event
	once       sync.Once

	mu        sync.Mutex         // held by Accept while it waits
	next      windows.Handle     // the instance of the pipe for the next client; 0 once closed
	connected windows.Handle     // an event: next has its client
	pending   windows.Overlapped // of next
}

// Listen makes the pipe of a socket's path, for this user alone. Only the holder of the
// agent's lock may.
func Listen(_ context.Context, path string) (*Listener, error) {
	pipe, err := pipeName(path)
	if err != nil {
		return nil, err
	}
	user, err := peer.CurrentUser()
	if err != nil {
		return nil, err
	}
	// An administrator's pipe would otherwise belong to all administrators.
	descriptor, err := windows.SecurityDescriptorFromString(fmt.Sprintf("O:%[1]sD:P(A;;GA;;;%[1]s)", user))
	if err != nil {
		return nil, err
	}
	l := &Listener{path: path, pipe: pipe}
	l.security.Length = uint32(unsafe.Sizeof(l.security))
	l.security.SecurityDescriptor = descriptor
	if l.next, err = l.firstInstance(); err != nil {
		return nil, err
	}
	if l.closed, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(l.next))
	}
	if l.connected, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(l.next), windows.CloseHandle(l.closed))
	}
	return l, nil
}

// firstInstance makes the pipe. If it exists already, the new instance joins it, provided
// that it is this user's: clients that have not yet noticed the end of the last agent keep
// its pipe alive.
func (l *Listener) firstInstance() (windows.Handle, error) {
	h, err := l.instance(windows.FILE_FLAG_FIRST_PIPE_INSTANCE)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		h, err = l.instance(0)
	}
	if err != nil {
		return 0, l.taken(err)
	}
	if err := checkOwner(h, l.pipe); err != nil {
		_ = windows.CloseHandle(h)
		return 0, l.taken(err)
	}
	return h, nil
}

// taken says who serves the pipe that could not be made, if that can be found out.
func (l *Listener) taken(err error) error {
	if h, openErr := open(context.Background(), l.pipe); openErr == nil {
		defer func() { _ = windows.CloseHandle(h) }()
		if err := checkOwner(h, l.pipe); err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot make the pipe %s: %w", l.pipe, err)
}

// instance makes one more instance of the pipe, of which each client needs one. It carries
// messages, since an empty message is how a direction is closed; see conn.
func (l *Listener) instance(flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(l.pipe)
	if err != nil {
		return 0, err
	}
	return windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|flags,
		windows.PIPE_TYPE_MESSAGE|windows.PIPE_READMODE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS,
		windows.PIPE_UNLIMITED_INSTANCES, pipeBuffer, pipeBuffer, 0, &l.security)
}

// Accept implements net.Listener. The instance for the next client exists before this one
// is handed out: without any, a client would take the agent for ended.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == 0 {
		return nil, net.ErrClosed
	}
	if err := l.awaitClient(); err != nil {
		return nil, err
	}
	next, err := l.instance(0)
	if err != nil {
		return nil, fmt.Errorf("cannot make the pipe %s again: %w", l.pipe, err)
	}
	c, err := newConn(l.next, l.path)
	l.next = next
	if err != nil {
		return nil, err
	}
	c.accepted = true
	return c, nil
}

// awaitClient waits until a client has opened the next instance.
func (l *Listener) awaitClient() error {
	if err := windows.ResetEvent(l.connected); err != nil {
		return err
	}
	l.pending = windows.Overlapped{HEvent: l.connected}
	err := windows.ConnectNamedPipe(l.next, &l.pending)
	switch {
	case err == nil, errors.Is(err, windows.ERROR_PIPE_CONNECTED), errors.Is(err, windows.ERROR_NO_DATA): // it may be gone again
		return nil
	case !errors.Is(err, windows.ERROR_IO_PENDING):
		return fmt.Errorf("cannot serve the pipe %s: %w", l.pipe, err)
	}
	which, err := windows.WaitForMultipleObjects([]windows.Handle{l.closed, l.connected}, false, windows.INFINITE)
	if err == nil && which == windows.WAIT_OBJECT_0 {
		err = net.ErrClosed
	}
	if err != nil {
		_ = windows.CancelIoEx(l.next, &l.pending) // or it has ended by itself
	}
	var n uint32
	ended := windows.GetOverlappedResult(l.next, &l.pending, &n, true) // until Windows has let go of pending
	if err == nil && !errors.Is(ended, windows.ERROR_NO_DATA) {
		err = ended
	}
	return err
}

// Path is where Dial finds the listener.
func (l *Listener) Path() string { return l.path }

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr(l.path) }

// Removed is false: a pipe exists as long as its server.
func (l *Listener) Removed() bool { return false }

// Close implements net.Listener.
func (l *Listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		err = windows.SetEvent(l.closed)
		l.mu.Lock() // once Accept has returned
		defer l.mu.Unlock()
		err = errors.Join(err, windows.CloseHandle(l.next), windows.CloseHandle(l.closed), windows.CloseHandle(l.connected))
		l.next = 0
	})
	return err
}

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
