package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
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
		select {
		case <-time.After(listenPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
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
		Code: api.CodeAgent, Message: fmt.Sprintf("%v does not listen to commands", holder), Err: err,
		Hint: "`tunctl agent log` shows what it last did",
	}
	if holder.PID != 0 {
		e.Hint += fmt.Sprintf("; ending process %d ends it, and jobs run on", holder.PID)
	}
	return e
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

// unreachable tells "no agent" from "an agent that does not answer".
func unreachable(err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, ErrNotRunning):
		return &api.Error{
			Code: api.CodeAgent, Message: ErrNotRunning.Error(), Err: err,
			Hint: "`tunctl agent start` starts it; `tunctl up` does so by itself",
		}
	case errors.Is(err, unsupported):
		return &api.Error{
			Code: api.CodeAgent, Message: "this system has no unix sockets, by which tunctl talks to its agent", Err: err,
			Hint: "Windows has them since Windows 10, version 1803",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &api.Error{
		Code: api.CodeAgent, Message: fmt.Sprintf("the agent does not answer: %v", err), Err: err,
		Hint: "`tunctl agent log` shows what it last did; `tunctl agent restart` starts it anew",
	}
}
