package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
	"tunctl/internal/localsocket"
)

const (
	startTimeout = 30 * time.Second // a computer that has just booted is slow; a failure is reported at once
	startPoll    = 20 * time.Millisecond
	endTimeout   = 5 * time.Second // an agent that ends is gone by then
)

// Launcher starts an agent process and returns at once. The channel, which may be nil,
// gets the error of a process that fails.
type Launcher func(ctx context.Context) (<-chan error, error)

// Ensure returns the status of the running agent, and starts one with launch if none
// runs. Commands that run at the same time start exactly one: the first takes a lock,
// the others find its agent.
func (c *Client) Ensure(ctx context.Context, launch Launcher) (api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	st, err := c.Status(ctx)
	if !errors.Is(err, ErrNotRunning) {
		return st, err
	}
	if err := home.MakePrivate(c.paths.State); err != nil {
		return st, api.Errorf(api.CodeAgent, "cannot create the state directory: %w", err).
			WithHint("%s", cmp.Or(home.FullDiskHint(err), "set TUNCTL_HOME to a directory that you can write to"))
	}
	lock := flock.New(c.paths.Lock() + ".start")
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryLockContext(ctx, startPoll); err != nil {
		return st, api.Errorf(api.CodeAgent, "another command is still starting the agent").Because(err)
	}
	if st, err := c.Status(ctx); !errors.Is(err, ErrNotRunning) {
		return st, err
	}
	failed, err := launch(ctx)
	if err != nil {
		return st, api.Errorf(api.CodeAgent, "cannot start the agent: %w", err)
	}
	return c.awaitStart(ctx, failed)
}

// Status returns what the agent knows. It tries again if the agent ended during the request.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	deadline := time.Now().Add(endTimeout)
	for {
		st, err := call(ctx, c, api.CallStatus, api.None{})
		if !cutOff(err) || time.Now().After(deadline) || ctxtime.Sleep(ctx, startPoll) != nil {
			return st, err
		}
	}
}

// cutOff reports whether the agent accepted the connection and ended before it had
// answered. Depending on the moment and the system the error is an end of file, a
// reset, a broken pipe, or one that net/http does not export.
func cutOff(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	op, _ := errors.AsType[*net.OpError](err)
	failed, ok := errors.AsType[*url.Error](err)
	return ok && !failed.Timeout() && (op == nil || op.Op != "dial")
}

// awaitStart waits until the agent answers or has failed.
func (c *Client) awaitStart(ctx context.Context, failed <-chan error) (api.Status, error) {
	for {
		st, err := c.Status(ctx)
		if err == nil {
			return st, nil
		}
		select {
		case <-ctx.Done():
			return st, api.Errorf(api.CodeAgent, "the agent was started but does not respond").Because(err).
				WithHint("`tunctl agent log` shows why; `tunctl agent run` runs it in this terminal")
		case err := <-failed:
			return st, api.Errorf(api.CodeAgent, "the agent failed to start: %w", err).WithHint("`tunctl agent log` shows more")
		case <-time.After(startPoll):
		}
	}
}

// CheckHome returns an error once the folder of TUNCTL_HOME is gone: no agent can start there.
func CheckHome() error { _, err := home.Find(); return err }

// Stop stops the agent, and waits until none answers. Jobs keep running.
func (c *Client) Stop(ctx context.Context) error {
	if _, err := call(ctx, c, api.CallStop, api.None{}); err != nil {
		return err
	}
	for {
		if _, err := c.Status(ctx); errors.Is(err, ErrNotRunning) {
			return nil
		}
		if err := ctxtime.Sleep(ctx, startPoll); err != nil {
			return api.Errorf(api.CodeAgent, "the agent is still running").Because(err)
		}
	}
}

// Detached returns a launcher that runs this program with args, without a terminal, in its own
// process group, with its output in the agent's log.
func Detached(paths home.Paths, args ...string) Launcher {
	return func(ctx context.Context) (<-chan error, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		if err := home.MakePrivate(paths.State); err != nil {
			return nil, err
		}
		out, err := os.OpenFile(paths.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = out.Close() }()
		begin, err := out.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, err
		}
		// The agent outlives the command that starts it.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Dir = paths.State
		cmd.SysProcAttr = detach()
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("run %q: %w", self, err)
		}
		ended := make(chan error, 1)
		// It waits as long as the agent or this program runs, so that the agent does not
		// become a zombie of the tray.
		go func() {
			if err := cmd.Wait(); err != nil {
				ended <- startupError(paths.Log(), begin, err)
			}
		}()
		return ended, nil
	}
}

// startupError is the error that an agent, which ended with err, wrote to its log after
// begin, as commands write theirs to a terminal.
func startupError(log string, begin int64, err error) error {
	f, openErr := os.Open(log)
	if openErr != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, readErr := io.ReadAll(io.NewSectionReader(f, begin, 1<<20))
	if i := bytes.LastIndex(text, []byte("tunctl: error: ")); readErr == nil && i >= 0 {
		line, _, _ := strings.Cut(string(text[i:]), "\n")
		return errors.New(strings.TrimPrefix(line, "tunctl: error: "))
	}
	return err
}

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
			holder, _ := paths.Running() // an agent that ends removes that first
			return nil, api.Errorf(api.CodeAgent, "%v does not accept connections", holder).Because(err).WithHint("%s", hungHint(holder))
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

// hungHint says how to end an agent that does not respond.
func hungHint(holder home.Running) string {
	hint := "`tunctl agent log` shows what it did last"
	if holder.PID != 0 {
		hint += fmt.Sprintf("; to replace it, end process %d and run the command again: jobs keep running", holder.PID)
	}
	return hint
}

// ErrHung is wrapped when an agent runs and does not respond.
var ErrHung = errors.New("the agent does not respond")

// hung is about an agent that accepted a request but did not respond. It does not wrap
// the error of net/http, which passes for the end of the caller's own deadline.
func (c *Client) hung() *api.Error {
	holder, err := c.paths.Running()
	who := "the agent"
	if err == nil && holder.PID != 0 {
		who = fmt.Sprintf("the agent (pid %d)", holder.PID)
	}
	return api.Errorf(api.CodeAgent, "%s did not respond within %s", who, api.DurationText(c.timeout)).Because(ErrHung).
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
			if _, err := quick.Status(ctx); errors.Is(err, ErrHung) {
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

// Stream is a private two-way stream over a host's connection. CloseWrite ends one
// direction of it.
type Stream struct {
	localsocket.Conn
	Notice string // what the user should know about it; mostly ""
	read   io.Reader
}

// Read returns what comes from the host. Of a dial it fails with io.ErrUnexpectedEOF if
// the connection was lost.
func (s *Stream) Read(p []byte) (int, error) { return s.read.Read(p) }

// Stream opens a private stream. It waits until the host is connected or ctx ends: a
// user may be answering its prompts.
func (c *Client) Stream(ctx context.Context, req api.StreamRequest) (*Stream, error) {
	req.Env = environment()
	method, path := api.CallStream.Request()
	hr, err := c.newRequest(ctx, method, path, req)
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Connection", "Upgrade")
	hr.Header.Set("Upgrade", api.StreamUpgrade)
	ctx, end := c.whileResponding(ctx)
	defer end()
	conn, err := dial(ctx, c.paths)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	stream, err := c.upgrade(ctx, conn, hr)
	if err == nil && req.Kind == api.StreamDial {
		stream.read = httputil.NewChunkedReader(stream.read)
	}
	if !stop() && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return stream, nil
}

// upgrade sends the request and turns the connection into the stream.
func (c *Client) upgrade(ctx context.Context, conn localsocket.Conn, req *http.Request) (*Stream, error) {
	if err := req.Write(conn); err != nil {
		return nil, c.unreachable(ctx, err)
	}
	read := bufio.NewReader(conn)
	res, err := http.ReadResponse(read, req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return &Stream{Conn: conn, Notice: res.Header.Get(api.NoticeHeader), read: read}, nil
	}
	return nil, refusal(res)
}
