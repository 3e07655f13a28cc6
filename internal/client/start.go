package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/home"
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
			WithHint("free disk space, or set TUNCTL_HOME to a directory that you can write to")
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
			return st, api.Errorf(api.CodeAgent, "the agent failed to start: %w", err).
				WithHint("`tunctl agent log` shows more")
		case <-time.After(startPoll):
		}
	}
}

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
