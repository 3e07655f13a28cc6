package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/home"
)

// ErrRunning says that another agent answers at the socket already.
var ErrRunning = errors.New("another agent is running")

const (
	lockTimeout = 10 * time.Second
	lockPoll    = 10 * time.Millisecond
)

// listen opens the agent's socket. Whether an existing one is stale is found out
// by dialling it; a live one is never stolen. The lock keeps two agents that
// start at once from replacing each other's socket.
func listen(ctx context.Context, paths home.Paths) (net.Listener, error) {
	for _, dir := range []string{paths.State, filepath.Dir(paths.Socket)} {
		if err := home.MakePrivate(dir); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := flock.New(paths.Lock())
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %q: %w", paths.Lock(), err)
	}
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", paths.Socket); err == nil {
		_ = conn.Close()
		return nil, ErrRunning
	}
	if err := os.Remove(paths.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", paths.Socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(paths.Socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return ownOnly{l}, nil
}

// ownOnly accepts connections of the agent's own user only.
type ownOnly struct{ net.Listener }

// Accept implements net.Listener.
func (l ownOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if peerIsUs(conn) {
			return conn, nil
		}
		_ = conn.Close()
	}
}
