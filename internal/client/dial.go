package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
)

const (
	dialTimeout = 2 * time.Second
	// listenTimeout is longer than an agent takes to end, or to notice that its socket
	// is gone.
	listenTimeout = 15 * time.Second
	listenPoll    = 50 * time.Millisecond
)

// ErrNotRunning is wrapped when there is no agent to talk to.
var ErrNotRunning = errors.New("the agent is not running")

// dial connects to the agent: where this process's environment says, else where the
// agent that holds the lock says that it listens. One that holds the lock and listens
// nowhere, since it has just begun, is about to end or lost its socket, is waited for.
func dial(ctx context.Context, paths home.Paths) (net.Conn, error) {
	deadline := time.Now().Add(listenTimeout)
	for {
		conn, err := dialOnce(ctx, paths)
		switch {
		case err == nil, errors.Is(err, unsupported), ctx.Err() != nil, isForeign(err) && !ours(paths):
			return conn, err
		case !held(paths):
			return nil, notRunning(err)
		case time.Now().After(deadline):
			return nil, unlistening(paths, err)
		}
		if err := ctxtime.Sleep(ctx, listenPoll); err != nil {
			return nil, err
		}
	}
}

// isForeign reports whether a socket is another user's, as XDG_RUNTIME_DIR names one
// after su.
func isForeign(err error) bool {
	return errors.Is(err, home.ErrShared) || errors.Is(err, fs.ErrPermission)
}

// ours reports whether the state is not another user's: then neither is the agent.
func ours(paths home.Paths) bool {
	err := home.CheckOwned(paths.State)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// notRunning says of an error that it comes of there being no agent, if it does.
func notRunning(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, refused) || isForeign(err) {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return err
}

// unlistening names the agent that holds the lock and cannot be reached.
func unlistening(paths home.Paths, err error) *api.Error {
	holder, _ := paths.Running() // one that is about to end has taken its name back
	e := &api.Error{
		Code: api.CodeAgent, Message: fmt.Sprintf("%v does not accept connections", holder), Err: err,
		Hint: hungHint(holder),
	}
	return e
}

// hungHint says how to get rid of an agent that responds to nothing.
func hungHint(holder home.Running) string {
	hint := "`tunctl agent log` shows what it did last"
	if holder.PID != 0 {
		hint += fmt.Sprintf("; to replace it, end process %d and run the command again: jobs keep running", holder.PID)
	}
	return hint
}

// errHung is wrapped when an agent runs and does not respond.
var errHung = errors.New("the agent does not respond")

// hung names the agent that took a request and did not respond. What net/http calls
// that is left out: it passes for the end of the caller's own deadline.
func (c *Client) hung() *api.Error {
	holder, err := c.paths.Running()
	who := "the agent"
	if err == nil && holder.PID != 0 {
		who = fmt.Sprintf("the agent (pid %d)", holder.PID)
	}
	return &api.Error{
		Code: api.CodeAgent, Message: fmt.Sprintf("%s did not respond within %s", who, api.DurationText(c.answer)), Err: errHung,
		Hint: hungHint(holder),
	}
}

// whileResponding is ctx until the agent stops responding: who waits for a far host
// would otherwise wait for ever for an agent that hangs.
func (c *Client) whileResponding(ctx context.Context) (context.Context, func()) {
	quick := newClient(c.paths, c.answer)
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(c.answer)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
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

func dialOnce(ctx context.Context, paths home.Paths) (net.Conn, error) {
	conn, err := dialSocket(ctx, paths.Socket)
	if err == nil {
		return conn, nil
	}
	r, unknown := paths.Running()
	if unknown != nil || r.Socket == paths.Socket {
		return nil, err
	}
	if conn, elsewhere := dialSocket(ctx, r.Socket); elsewhere == nil {
		return conn, nil
	}
	return nil, err
}

// dialSocket connects to a socket in a folder of our own: passwords go there.
func dialSocket(ctx context.Context, socket string) (net.Conn, error) {
	if err := home.CheckOwned(filepath.Dir(socket)); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "unix", socket)
}

// held reports whether an agent holds the lock.
func held(paths home.Paths) bool {
	lock := flock.New(paths.Lock(), flock.SetFlag(os.O_RDONLY)) // none is made by asking
	defer func() { _ = lock.Close() }()
	free, err := lock.TryRLock()
	return err == nil && !free
}

// unreachable tells "no agent" from "an agent that does not respond", and both from the
// end of ctx.
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
		return &api.Error{
			Code: api.CodeAgent, Message: ErrNotRunning.Error(), Err: err,
			Hint: "`tunctl agent start` starts it; `tunctl up` starts it automatically",
		}
	case errors.Is(err, unsupported):
		return &api.Error{
			Code: api.CodeAgent, Message: "this system does not support unix sockets, which tunctl needs to talk to its agent", Err: err,
			Hint: "Windows supports them since Windows 10, version 1803",
		}
	case ctx.Err() != nil:
		return err
	case slow != nil && slow.Timeout():
		return c.hung()
	}
	return &api.Error{
		Code: api.CodeAgent, Message: fmt.Sprintf("cannot talk to the agent: %v", err), Err: err,
		Hint: "`tunctl agent log` shows what it did last; `tunctl agent restart` restarts it",
	}
}
