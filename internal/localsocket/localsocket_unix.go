//go:build unix

package localsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"tunctl/internal/home"
	"tunctl/internal/peer"
)

// Dial connects to a socket in a folder of our own: passwords are sent there. The error
// wraps ErrForeign if the folder is another user's.
func Dial(ctx context.Context, path string) (Conn, error) {
	if err := home.CheckOwned(filepath.Dir(path)); err != nil {
		if errors.Is(err, home.ErrShared) {
			err = fmt.Errorf("%w: %w", ErrForeign, err)
		}
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// NobodyListens reports whether an error of Dial means that.
func NobodyListens(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// Listener is the agent's end of the socket.
type Listener struct {
	listener *net.UnixListener
	file     fs.FileInfo
}

// Listen replaces what is at path. Only the holder of the agent's lock may.
func Listen(ctx context.Context, path string) (*Listener, error) {
	if err := home.MakePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	var lc net.ListenConfig
	opened, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	l := opened.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // by then the path may be another path's
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return &Listener{l, file}, nil
}

// Accept implements net.Listener. It accepts only this user's programs.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.listener.Accept()
		if err != nil || peer.SameUser(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}

// Path is where Dial finds the listener.
func (l *Listener) Path() string { return l.listener.Addr().String() }

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Removed reports whether the file of the socket is gone or another.
func (l *Listener) Removed() bool {
	now, err := os.Lstat(l.Path())
	return err != nil || !os.SameFile(now, l.file)
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	if !l.Removed() {
		_ = os.Remove(l.Path()) // a stale one is replaced at the next start
	}
	return l.listener.Close()
}
