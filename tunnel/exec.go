package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/sessions"
)

// Result is the output and the exit status of a command.
type Result struct {
	Stdout []byte
	Stderr []byte
	Exit   int // 128+n for a signal, as the remote shell reports it; -1 if the host reported none
}

// Run runs a command on the host and waits for its end. When ctx ends it closes the
// channel, which is the only way to end a command that every server has. It waits for
// one of the sessions that the host allows. A command that failed is no error.
func (h *Host) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	c, err := h.current()
	if err != nil {
		return Result{}, err
	}
	return c.runNamed(ctx, h.label(), command, stdin)
}

// runNamed is run with errors that name the host.
func (c *conn) runNamed(ctx context.Context, host, command string, stdin []byte) (Result, error) {
	r, err := c.run(ctx, command, stdin)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", host, err)
	}
	return r, nil
}

// ErrOtherAccount is wrapped when a host's connection is to another account than the
// caller expects: an edited config can point a name elsewhere.
var ErrOtherAccount = errors.New("the host is another account now")

// RunAs is Run, but fails if the connection is to another account.
func (h *Host) RunAs(ctx context.Context, account, command string, stdin []byte) (Result, error) {
	c, err := h.current()
	if err != nil {
		return Result{}, err
	}
	if c.identity != account {
		return Result{}, fmt.Errorf("%s: %w: %s, not %s", h.label(), ErrOtherAccount, c.identity, account)
	}
	return c.runNamed(ctx, h.label(), command, stdin)
}

func (c *conn) run(ctx context.Context, command string, stdin []byte) (Result, error) {
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	for {
		slot := c.sessions.Acquire(ctx, c.done)
		if slot == nil {
			if ctx.Err() != nil {
				return Result{}, fmt.Errorf("%w: %w", api.ErrBusy, ctx.Err())
			}
			return Result{}, c.downError()
		}
		x, err := open(ctx, c, func() (execution, error) { return c.execute(ctx, slot, command, stdin) }, func(execution) {})
		switch {
		case err == nil && x.Exit < 0 && c.ended():
			return Result{}, c.downError()
		case !x.retry || c.ended():
			return x.Result, err
		}
	}
}

// execution is a command that has ended.
type execution struct {
	Result
	retry bool // the server had no free session
}

// execute runs a command, and closes its session if ctx ends first.
func (c *conn) execute(ctx context.Context, slot *sessions.Slot, command string, stdin []byte) (x execution, err error) {
	defer func() {
		// An ssh program opens the session only together with the command, so a refusal can
		// come late.
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
			x.retry = slot.Refused()
		} else {
			c.endSession(slot)
		}
	}()
	session, err := c.client.NewSession()
	if err != nil {
		return x, fmt.Errorf("cannot start a command: %w", api.RemoteError(err))
	}
	defer func() { _ = session.Close() }()
	defer context.AfterFunc(ctx, func() { _ = session.Close() })()
	out, errs := &limitedBuffer{session: session}, &limitedBuffer{session: session}
	session.Stdin = bytes.NewReader(stdin)
	session.Stdout, session.Stderr = out, errs
	err = session.Start(command)
	if err == nil {
		slot.Accepted()
		err = session.Wait()
	}
	x.Exit, err = exitStatus(err)
	if out.over || errs.over {
		err = errors.New("the output of the command is too long")
	}
	x.Stdout, x.Stderr = out.kept.Bytes(), errs.kept.Bytes()
	return x, err
}

// endSession gives a slot back whose session we closed. After the last one that the host
// allows, it first waits for the reply to a request: OpenSSH counts a session until it has
// processed its end, and refuses one that is opened right behind.
func (c *conn) endSession(slot *sessions.Slot) {
	if c.master != nil || !slot.IsLast() {
		slot.Release()
		return
	}
	release := sync.OnceFunc(slot.Release)
	if !c.spawn(func() {
		late := time.AfterFunc(sessions.Lag, release)
		defer late.Stop()
		_, _ = c.roundTrip()
		release()
	}) {
		release()
	}
}

// exitStatus is how a command ended. Only a broken channel is an error.
func exitStatus(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		if exit.Signal() != "" {
			return max(exit.ExitStatus(), 128), nil
		}
		return exit.ExitStatus(), nil
	}
	if _, ok := errors.AsType[*ssh.ExitMissingError](err); ok {
		return -1, nil
	}
	return -1, api.RemoteError(err)
}

// maxOutput bounds what one command may print, in bytes. A list of 20,000 jobs has up to
// 10 MB.
const maxOutput = 32 << 20

// limitedBuffer is one output of a session, which it closes if that is too long.
type limitedBuffer struct {
	kept    bytes.Buffer // not embedded: io.Copy would use its ReadFrom
	session *ssh.Session
	over    bool
}

// Write implements io.Writer.
func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > maxOutput {
		l.over = true
		_ = l.session.Close()
		return 0, errors.New("output limit reached")
	}
	return l.kept.Write(p)
}
