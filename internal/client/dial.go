package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
)

const (
	// listenTimeout is longer than an agent takes to end, or to notice that its socket
	// is gone.
	listenTimeout = 15 * time.Second
	listenPoll    = 50 * time.Millisecond
)

// ErrNotRunning is wrapped when no agent runs.
var ErrNotRunning = errors.New("the agent is not running")

// dial connects to the agent: at the socket of this process's environment, else at the
// one that the holder of the lock has announced. If an agent holds the lock and listens
// nowhere, since it just starts, ends or lost its socket, dial waits for it.
func dial(ctx context.Context, paths home.Paths) (localsocket.Conn, error) {
	deadline := time.Now().Add(listenTimeout)
	for {
		conn, err := dialOnce(ctx, paths)
		switch {
		case err == nil, ctx.Err() != nil, isForeign(err) && !ownState(paths):
			return conn, err
		case !lockHeld(paths):
			return nil, notRunning(err)
		case time.Now().After(deadline):
			return nil, notAccepting(paths, err)
		}
		if err := ctxtime.Sleep(ctx, listenPoll); err != nil {
			return nil, err
		}
	}
}

// isForeign reports whether a socket is another user's: after su, XDG_RUNTIME_DIR may
// still be theirs.
func isForeign(err error) bool {
	return errors.Is(err, localsocket.ErrForeign) || errors.Is(err, fs.ErrPermission)
}

// ownState reports whether the state folder, and so the agent, is not another user's.
func ownState(paths home.Paths) bool {
	err := home.CheckOwned(paths.State)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// notRunning wraps ErrNotRunning around an error that means it.
func notRunning(err error) error {
	if localsocket.NobodyListens(err) || isForeign(err) {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return err
}

// notAccepting is about an agent that holds the lock but accepts no connection.
func notAccepting(paths home.Paths, err error) *api.Error {
	holder, _ := paths.Running() // an agent that ends removes that first
	return api.Errorf(api.CodeAgent, "%v does not accept connections", holder).Because(err).
		WithHint("%s", hungHint(holder))
}

// hungHint says how to end an agent that does not respond.
func hungHint(holder home.Running) string {
	hint := "`tunctl agent log` shows what it did last"
	if holder.PID != 0 {
		hint += fmt.Sprintf("; to replace it, end process %d and run the command again: jobs keep running", holder.PID)
	}
	return hint
}

// errHung is wrapped when an agent runs and does not respond.
var errHung = errors.New("the agent does not respond")

// hung is about an agent that accepted a request but did not respond. It does not wrap
// the error of net/http, which passes for the end of the caller's own deadline.
func (c *Client) hung() *api.Error {
	holder, err := c.paths.Running()
	who := "the agent"
	if err == nil && holder.PID != 0 {
		who = fmt.Sprintf("the agent (pid %d)", holder.PID)
	}
	return api.Errorf(api.CodeAgent, "%s did not respond within %s", who, api.DurationText(c.timeout)).Because(errHung).
		WithHint("%s", hungHint(holder))
}

// whileResponding is ctx until the agent stops responding. Without it, a request that
// waits for a remote host would wait for ever for an agent that hangs.
func (c *Client) whileResponding(ctx context.Context) (context.Context, func()) {
	quick := newClient(c.paths, c.timeout)
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctxtime.Sleep(ctx, c.timeout) == nil {
			if _, err := quick.Status(ctx); errors.Is(err, errHung) {
				cancel(err)
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

func dialOnce(ctx context.Context, paths home.Paths) (localsocket.Conn, error) {
	conn, err := localsocket.Dial(ctx, paths.Socket)
	if err == nil {
		return conn, nil
	}
	r, unknown := paths.Running()
	if unknown != nil || r.Socket == paths.Socket {
		return nil, err
	}
	if conn, elsewhere := localsocket.Dial(ctx, r.Socket); elsewhere == nil {
		return conn, nil
	}
	return nil, err
}

// lockHeld reports whether an agent holds the lock.
func lockHeld(paths home.Paths) bool {
	lock := flock.New(paths.Lock(), flock.SetFlag(os.O_RDONLY)) // this makes none
	defer func() { _ = lock.Close() }()
	free, err := lock.TryRLock()
	return err == nil && !free
}

// unreachable distinguishes "no agent", "an agent that does not respond", and the end of
// ctx.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*api.Error](context.Cause(ctx)); ok {
		return e
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	slow, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrNotRunning):
		return api.Errorf(api.CodeAgent, "%v", ErrNotRunning).Because(err).
			WithHint("`tunctl agent start` starts it; `tunctl up` starts it automatically")
	case ctx.Err() != nil:
		return err
	case slow != nil && slow.Timeout():
		return c.hung()
	}
	return api.Errorf(api.CodeAgent, "cannot talk to the agent: %w", err).
		WithHint("`tunctl agent log` shows what it did last; `tunctl agent restart` restarts it")
}
