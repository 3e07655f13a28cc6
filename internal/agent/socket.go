package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/peer"
)

// ErrRunning says that another agent runs already, and answers.
var ErrRunning = errors.New("another agent is already running")

const (
	// lockTimeout is how long a start waits for an agent that is about to end.
	lockTimeout = 20 * time.Second
	lockPoll    = 20 * time.Millisecond
	dialTimeout = 2 * time.Second
)

// door is what makes an agent the only one of its person: the lock in the state
// folder, held for the agent's whole life, and the socket at which it is found. The
// kernel frees the lock of an agent that was killed. The file beside the lock names
// the socket, since clients may look elsewhere.
type door struct {
	paths home.Paths
	since time.Time
	log   *slog.Logger
	lock  *flock.Flock

	mu       sync.Mutex
	listener *net.UnixListener
	file     fs.FileInfo // of the listener's socket
	closed   bool
}

// openSocket takes the lock and listens. Where another agent has the lock it is waited
// for if it is about to end, and never replaced: ErrRunning is wrapped if it answers.
func openSocket(ctx context.Context, paths home.Paths, since time.Time, log *slog.Logger) (*door, error) {
	if err := home.MakePrivate(paths.State); err != nil {
		return nil, err
	}
	d := &door{paths: paths, since: since, log: log, lock: flock.New(paths.Lock())}
	if err := d.acquireLock(ctx); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	if err := paths.ClearRunning(); err != nil { // of an agent that was killed
		return nil, errors.Join(err, d.lock.Close())
	}
	// An agent of an older version holds no lock.
	if answers(ctx, paths.Socket) {
		return nil, errors.Join(ErrRunning, d.lock.Close())
	}
	if err := d.listen(ctx); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func (d *door) acquireLock(ctx context.Context) error {
	deadline := time.After(lockTimeout)
	for {
		locked, err := d.lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock %q: %w", d.paths.Lock(), err)
		}
		if locked {
			return nil
		}
		holder, _ := d.paths.Running() // one that has just begun is not named yet
		if holder.Socket != "" && answers(ctx, holder.Socket) {
			return fmt.Errorf("%w: %v, at %s", ErrRunning, holder, holder.Socket)
		}
		select {
		case <-time.After(lockPoll):
		case <-deadline:
			return lockHeldError(d.paths, holder)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lockHeldError says who holds the lock and is not to be reached.
func lockHeldError(paths home.Paths, holder home.Running) *api.Error {
	e := &api.Error{
		Code:    api.CodeAgent,
		Message: fmt.Sprintf("%v holds %s and does not respond", holder, paths.Lock()),
		Hint:    "`tunctl agent log` shows what it did last",
	}
	if holder.PID != 0 {
		e.Hint += fmt.Sprintf("; to replace it, end process %d: jobs keep running", holder.PID)
	}
	return e
}

// answers reports whether somebody listens at a socket.
func answers(ctx context.Context, socket string) bool {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// listen opens the socket, at its own place or at the spare one: the folder for
// sockets may be another user's, or gone with the person's login. Who holds the lock
// may replace what is there.
func (d *door) listen(ctx context.Context) error {
	var failed error
	for _, socket := range []string{d.paths.Socket, d.paths.SpareSocket()} {
		l, err := listenAt(ctx, socket)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		file, err := os.Lstat(socket)
		if err == nil && !d.replace(l, file) {
			err = net.ErrClosed
		}
		if err != nil {
			return errors.Join(err, l.Close(), os.Remove(socket))
		}
		d.announce(socket)
		return nil
	}
	return failed
}

// announce writes down who has the lock and where it listens. On a full disk only
// clients that look there find the agent; a second one does not start all the same.
func (d *door) announce(socket string) {
	err := d.paths.SetRunning(home.Running{PID: os.Getpid(), Since: d.since, Socket: socket})
	if err != nil {
		d.log.Warn("clients with another XDG_RUNTIME_DIR may not find the agent", "err", errors.Join(err, d.paths.ClearRunning()))
	}
}

func listenAt(ctx context.Context, socket string) (*net.UnixListener, error) {
	if err := home.MakePrivate(filepath.Dir(socket)); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the stale socket: %w", err)
	}
	var lc net.ListenConfig
	opened, err := lc.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	l := opened.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // by then another socket may be there
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// replace has Accept go on with l, unless the door is closed.
func (d *door) replace(l *net.UnixListener, file fs.FileInfo) bool {
	d.mu.Lock()
	was := d.listener
	ok := !d.closed
	if ok {
		d.listener, d.file = l, file
	}
	d.mu.Unlock()
	if ok && was != nil {
		_ = was.Close()
	}
	return ok
}

// serve listens again whenever the socket is gone: cleaners of temporary folders, and
// the end of a login elsewhere, remove it from an agent that lives on.
func (d *door) serve(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		socket, there := d.look()
		if there || answers(ctx, socket) || ctx.Err() != nil {
			continue
		}
		if err := d.listen(ctx); err != nil {
			d.log.Warn("the socket of the agent was removed, and cannot be created again", "err", err)
			continue
		}
		socket, _ = d.look()
		d.log.Warn("the socket of the agent was removed: created it again", "socket", socket)
	}
}

// look returns the socket's path, and whether it is still the one that was opened.
func (d *door) look() (socket string, there bool) {
	d.mu.Lock()
	socket, file := d.listener.Addr().String(), d.file
	d.mu.Unlock()
	now, err := os.Lstat(socket)
	return socket, err == nil && os.SameFile(now, file)
}

// Accept implements net.Listener: it takes in the agent's own user only.
func (d *door) Accept() (net.Conn, error) {
	for {
		d.mu.Lock()
		l := d.listener
		d.mu.Unlock()
		conn, err := l.Accept()
		if err != nil {
			if d.replaced(l) {
				continue
			}
			return nil, err
		}
		if peer.SameUser(conn) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (d *door) replaced(l *net.UnixListener) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listener != l && !d.closed
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listener.Addr()
}

// Close implements net.Listener. The lock stays: what the agent has begun is not over.
func (d *door) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed || d.listener == nil {
		return nil
	}
	if socket, ours := d.look(); ours {
		_ = os.Remove(socket) // a stale one is replaced at the next start
	}
	return d.listener.Close()
}

// release is the very last thing an agent does: from then on another may start.
func (d *door) release() error {
	return errors.Join(d.Close(), d.paths.ClearRunning(), d.lock.Close())
}
