package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
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

func (c *conn) run(ctx context.Context, command string, stdin []byte) (Result, error) {
	for {
		slot := c.sessions.acquire(ctx, c.done)
		if slot == nil {
			if ctx.Err() != nil {
				return Result{}, fmt.Errorf("%w: %w", api.ErrBusy, ctx.Err())
			}
			return Result{}, c.downError()
		}
		x := newExecution(slot, c.limits.MaxOutput)
		if !c.spawn(func() { x.run(c, command, stdin) }) {
			slot.release()
			return Result{}, c.downError()
		}
		select {
		case <-x.ended:
		case <-c.whenAside():
			x.abandon()
			return Result{}, errAside
		case <-ctx.Done():
			x.abandon()
			return Result{}, ctx.Err()
		}
		switch {
		case (x.err != nil || x.result.Exit < 0) && c.ended():
			return Result{}, c.downError()
		case !x.retry:
			return x.result, x.err
		}
	}
}

// execution is one running command. x/crypto's functions take no ctx, so it runs in a
// goroutine that its caller may abandon.
type execution struct {
	slot      *sessionSlot
	out, errs limitedBuffer
	result    Result
	err       error
	retry     bool // the server had no free session
	ended     chan struct{}

	mu        sync.Mutex
	session   *ssh.Session
	abandoned bool
}

func newExecution(slot *sessionSlot, maxOutput int) *execution {
	return &execution{slot: slot, out: limitedBuffer{left: maxOutput}, errs: limitedBuffer{left: maxOutput}, ended: make(chan struct{})}
}

func (x *execution) run(c *conn, command string, stdin []byte) {
	defer close(x.ended)
	defer x.releaseSlot(c)
	session, err := c.client.NewSession()
	if err != nil {
		x.err = fmt.Errorf("opening a session: %w", api.RemoteError(err))
		return
	}
	defer func() { _ = session.Close() }()
	if !x.setSession(session) {
		return
	}
	x.out.full = func() { _ = session.Close() }
	x.errs.full = x.out.full
	session.Stdin = bytes.NewReader(stdin)
	session.Stdout, session.Stderr = &x.out, &x.errs
	err = session.Start(command)
	if err == nil {
		x.slot.accepted()
		err = session.Wait()
	}
	x.result.Exit, x.err = exitStatus(err)
	if x.out.overflown() || x.errs.overflown() {
		x.err = errors.New("the output of the command is too long")
	}
	x.result.Stdout, x.result.Stderr = x.out.bytes(), x.errs.bytes()
}

// releaseSlot gives the slot back. A reused master opens the session only together with
// the command, so a refusal can come as late as here.
func (x *execution) releaseSlot(c *conn) {
	if _, refused := errors.AsType[*ssh.OpenChannelError](x.err); refused {
		x.retry = x.slot.refused()
		return
	}
	c.endSession(x.slot)
}

// setSession records the session for abandon, and reports whether the command is still
// wanted.
func (x *execution) setSession(s *ssh.Session) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.session = s
	return !x.abandoned
}

func (x *execution) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.abandoned = true
	if x.session != nil {
		_ = x.session.Close()
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

// limitedBuffer is a buffer with a maximum size.
type limitedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	left int
	over bool
	full func()
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) > l.left {
		if !l.over {
			l.over = true
			l.full()
		}
		return 0, errors.New("output limit reached")
	}
	l.left -= len(p)
	return l.b.Write(p)
}

func (l *limitedBuffer) overflown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *limitedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Bytes()
}
