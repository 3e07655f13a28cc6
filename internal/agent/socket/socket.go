// Package socket is where the agent listens, and the lock that makes it the only agent of its
// user. It does not know what is served there.
package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
)

// ErrRunning says that another agent is already running and responds.
var ErrRunning = errors.New("another agent is already running")

const (
	// lockTimeout is how long a start waits for an agent that is stopping.
	lockTimeout = 20 * time.Second
	lockPoll    = 20 * time.Millisecond
)

// Socket is the agent's listener, with the lock that makes it the only agent of its user.
// The lock is in the state folder and held as long as the agent runs; the kernel frees
// the lock of an agent that was killed. The file next to the lock has the path of the
// socket, since clients may look for it elsewhere.
type Socket struct {
	paths home.Paths
	since time.Time
	log   *slog.Logger
	lock  *flock.Flock
	// Crashed says that the last agent ended without a stop, while the computer stayed on.
	Crashed bool

	mu       sync.Mutex
	listener *localsocket.Listener
	closed   bool
}

// Open acquires the lock and listens. It waits for another agent that is stopping,
// and never replaces one: the error wraps ErrRunning if that responds.
func Open(ctx context.Context, paths home.Paths, since time.Time, log *slog.Logger) (*Socket, error) {
	if err := home.MakePrivate(paths.State); err != nil {
		return nil, err
	}
	s := &Socket{paths: paths, since: since, log: log, lock: flock.New(paths.Lock())}
	if err := s.acquireLock(ctx); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	last, err := paths.Running()
	s.Crashed = err == nil && !last.BeforeBoot()
	if err := paths.ClearRunning(); err != nil { // of an agent that was killed
		return nil, errors.Join(err, s.lock.Close())
	}
	if err := s.listen(ctx); err != nil {
		return nil, errors.Join(err, s.Release())
	}
	return s, nil
}

func (s *Socket) acquireLock(ctx context.Context) error {
	deadline := time.After(lockTimeout)
	for {
		locked, err := s.lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock %q: %w", s.paths.Lock(), err)
		}
		if locked {
			return nil
		}
		holder, _ := s.paths.Running() // not written yet by one that is starting
		if holder.Socket != "" && isListening(ctx, holder.Socket) {
			return fmt.Errorf("%w: %v, at %s", ErrRunning, holder, holder.Socket)
		}
		select {
		case <-time.After(lockPoll):
		case <-deadline:
			return lockHeldError(s.paths, holder)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lockHeldError says who holds the lock and does not respond.
func lockHeldError(paths home.Paths, holder home.Running) *api.Error {
	e := api.Errorf(api.CodeAgent, "%v holds %s and does not respond", holder, paths.Lock()).
		WithHint("`tunctl agent log` shows what it did last")
	if holder.PID != 0 {
		e.Hint += fmt.Sprintf("; to replace it, end process %d: jobs keep running", holder.PID)
	}
	return e
}

// isListening reports whether a socket accepts connections.
func isListening(ctx context.Context, path string) bool {
	conn, err := localsocket.Dial(ctx, path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// listen opens the socket at its path or at the spare one: the folder for sockets may
// belong to another user, or be removed at the end of a login. The holder of the lock may
// replace an existing socket. It then writes which process has the lock and where it listens.
func (s *Socket) listen(ctx context.Context) error {
	var failed error
	for _, path := range slices.Compact([]string{s.paths.Socket, s.paths.SpareSocket()}) { // Windows has one for both
		l, err := localsocket.Listen(ctx, path)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if !s.replace(l) {
			return errors.Join(net.ErrClosed, l.Close())
		}
		// If the disk is full, only clients with the same socket path find the agent; the lock still prevents a second.
		if err := s.paths.SetRunning(home.Running{PID: os.Getpid(), Since: s.since, Socket: path}); err != nil {
			s.log.Warn("clients with another XDG_RUNTIME_DIR may not find the agent", "err", errors.Join(err, s.paths.ClearRunning()))
		}
		return nil
	}
	return failed
}

// replace has Accept continue with l, unless the socket is closed.
func (s *Socket) replace(l *localsocket.Listener) bool {
	s.mu.Lock()
	was := s.listener
	ok := !s.closed
	if ok {
		s.listener = l
	}
	s.mu.Unlock()
	if ok && was != nil {
		_ = was.Close()
	}
	return ok
}

// Serve listens again whenever the socket was removed: cleaners of temporary folders, and
// the end of another login, remove it from a running agent.
func (s *Socket) Serve(ctx context.Context, every time.Duration) {
	for ctxtime.Sleep(ctx, every) == nil {
		l := s.current()
		if !l.Removed() || isListening(ctx, l.Path()) || ctx.Err() != nil {
			continue
		}
		if err := s.listen(ctx); err != nil {
			s.log.Warn("the socket of the agent was removed, and cannot be created again", "err", err)
			continue
		}
		s.log.Warn("the socket of the agent was removed: created it again", "socket", s.current().Path())
	}
}

func (s *Socket) current() *localsocket.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener
}

// Accept implements net.Listener. It accepts only the agent's own user.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		l := s.current()
		conn, err := l.Accept()
		if err == nil || l == s.current() { // else it was replaced
			return conn, err
		}
	}
}

// Addr implements net.Listener.
func (s *Socket) Addr() net.Addr { return s.current().Addr() }

// Close implements net.Listener. It keeps the lock: the agent still has work to finish.
func (s *Socket) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed || s.listener == nil {
		return nil
	}
	return s.listener.Close()
}

// Release is the last thing that an agent does: from then on another may start.
func (s *Socket) Release() error {
	return errors.Join(s.Close(), s.paths.ClearRunning(), s.lock.Close())
}
