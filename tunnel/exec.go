package tunnel

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/tunnel/channels"
	"tunctl/tunnel/failure"
)

// Result is the output and the exit status of a command.
type Result struct {
	Stdout []byte
	Stderr []byte
	Exit   int // 128+n for a signal, as the remote shell reports it; -1 if the host reported none
}

// ErrOtherAccount is wrapped when a host's connection is to another account than the
// caller expects: an edited config can point a name elsewhere.
var ErrOtherAccount = errors.New("the host is another account now")

func (c *conn) run(ctx context.Context, command string, stdin []byte) (Result, error) {
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	for {
		slot, err := c.slots.Acquire(ctx, c.done)
		if err != nil {
			return Result{}, c.orDown(fmt.Errorf("%w: %w", api.ErrBusy, ctx.Err()))
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
func (c *conn) execute(ctx context.Context, slot *channels.Slot, command string, stdin []byte) (x execution, err error) {
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
func (c *conn) endSession(slot *channels.Slot) {
	if c.master != nil || !slot.IsLast() {
		slot.Release()
		return
	}
	release := sync.OnceFunc(slot.Release)
	if !c.spawn(func() {
		late := time.AfterFunc(channels.Lag, release)
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

// ErrReplaced says that another connection took the place of the one that a stream is on.
var ErrReplaced = errors.New("another connection took its place")

// Stream is a command's standard input and output as a connection.
type Stream struct {
	programPipes
	conn    *conn
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	Stderr  *stderrBuffer // what the command prints there
	exited  chan struct{}
	status  int
	err     error // why there is no status
	wait    channelWait
}

// stream starts a command that carries a connection, and sends it its first line. It
// waits for a session, and leaves some for commands.
func (c *conn) stream(ctx context.Context, command, line string) (*Stream, error) {
	slot, err := c.slots.AcquireForStream(ctx, c.done)
	if err != nil {
		return nil, c.orDown(err)
	}
	return open(ctx, c, func() (*Stream, error) {
		s := &Stream{conn: c, wait: channelWait{all: &c.clients}, Stderr: newStderrBuffer(), exited: make(chan struct{}), status: -1}
		err := s.begin(command, line)
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
			slot.Refused()
			return nil, failure.OfCommand(fmt.Errorf("the host allows no more sessions: %w", api.RemoteError(err)))
		}
		if err != nil {
			slot.Release()
			return nil, err
		}
		slot.Accepted()
		c.wg.Go(func() {
			defer slot.Release()
			s.status, s.err = exitStatus(s.session.Wait())
			s.Stderr.end()
			close(s.exited)
			_ = s.session.Close()
		})
		return s, nil
	}, closeLate[*Stream])
}

// begin starts the command, and sends it its first line.
func (s *Stream) begin(command, line string) (err error) {
	if s.session, err = s.conn.client.NewSession(); err != nil {
		return err
	}
	s.in, _ = s.session.StdinPipe() // a pipe fails only after the start
	out, _ := s.session.StdoutPipe()
	s.out, s.session.Stderr = bufio.NewReader(out), s.Stderr
	if err := s.session.Start(command); err != nil {
		_ = s.session.Close()
		return fmt.Errorf("running a command: %w", err)
	}
	_, _ = io.WriteString(s.in, line+"\n") // if the command has ended, it says why
	return nil
}

// Read implements net.Conn. It returns io.EOF only if the command succeeded.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	<-s.exited
	if s.err == nil && s.status != 0 {
		return n, fmt.Errorf("the relay to the node ended with status %d: %s", s.status, s.Stderr.Text())
	}
	return n, cmp.Or(s.err, io.EOF)
}

// Write implements net.Conn.
func (s *Stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite closes the command's input.
func (s *Stream) CloseWrite() error { return s.in.Close() }

// Close closes the session, which is the only way to end a command that every server
// has. It does not close the command's input before: x/crypto does not allow that during
// a Write.
func (s *Stream) Close() error {
	_ = s.session.Close()
	s.wait.ended()
	return nil
}

// ReadLine reads a line of the command's output, which is not longer than most.
func (s *Stream) ReadLine(most int) (string, error) { return api.ReadLine(s.out, most) }

// Exited is closed once the command has ended.
func (s *Stream) Exited() <-chan struct{} { return s.exited }

// Status is the exit status of a command that has ended; the error is why there is none.
func (s *Stream) Status() (int, error) { return s.status, s.err }

// Await calls f, and returns early when ctx ends or the connection does not respond.
func (s *Stream) Await(ctx context.Context, f func() error) error {
	_, err := open(ctx, s.conn, func() (struct{}, error) { return struct{}{}, f() }, func(struct{}) {})
	return err
}

// Lost is api.ErrDown with the reason once the connection that the stream is on has ended.
func (s *Stream) Lost() error { return s.conn.lost() }

// Check says why nothing new is opened over the stream: its connection does not respond
// now, or it was replaced (ErrReplaced).
func (s *Stream) Check() error {
	switch s.conn.worst() {
	case standingAside:
		return errAside
	case standingReplaced:
		return ErrReplaced
	}
	return nil
}

// LastHeard is when something last came over the connection that the stream is on.
func (s *Stream) LastHeard() time.Time { return s.conn.wire.lastHeard() }

// CountAsClient counts the stream among the channels of clients until it is closed.
func (s *Stream) CountAsClient() { s.wait.opened() }
