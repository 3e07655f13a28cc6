package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/posixsh"
)

// spareSessions is how many sessions streams leave for commands.
const spareSessions = 2

// stream is a command's standard input and output as a connection.
type stream struct {
	programPipes
	conn    *conn
	slot    *sessionSlot
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *stderrBuffer
	exited  chan struct{}
	status  int
	err     error // why there is no status
	closing sync.Once
	wait    channelWait

	unanswered atomic.Bool // closed because the node did not respond in time
}

// readiness is how a command shows that its connection is open, or never will be.
type readiness struct {
	way     string
	mark    string // a line of its output, after which the connection's bytes follow
	stderr  string // printed on standard error after that; "": nothing
	refused func(exit int, said string) bool

	class    func(said string) failureClass // of its failure; nil: unknown
	answered string                         // printed once the node responds; "": nothing
	timeout  time.Duration                  // for that response
}

// stream starts a command that carries a connection, and sends it its first line. It
// waits for a session, and leaves some for commands.
func (c *conn) stream(ctx context.Context, command, line string) (*stream, error) {
	slot, err := c.sessions.acquireForStream(ctx, c.done)
	if err != nil {
		if c.ended() {
			return nil, c.downError()
		}
		return nil, err
	}
	s := &stream{conn: c, wait: channelWait{all: &c.clients}, slot: slot, stderr: newStderrBuffer(), exited: make(chan struct{}), status: -1}
	started := make(chan error, 1)
	if !c.spawn(func() { s.run(command, line, started) }) {
		slot.release()
		return nil, c.downError()
	}
	select {
	case err := <-started:
		return s, err
	case <-ctx.Done():
		c.spawn(func() {
			if <-started == nil {
				_ = s.Close()
			}
		})
		return nil, ctx.Err()
	}
}

// run runs the command, from opening its session to its end.
func (s *stream) run(command, line string, started chan<- error) {
	session, err := s.conn.client.NewSession()
	if err == nil {
		s.session = session
		if err = s.begin(command, line); err != nil {
			_ = session.Close()
		}
	}
	if err != nil {
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
			s.slot.refused()
			err = &noWayError{"a command on the host", fmt.Errorf("the host allows no more sessions: %w", api.RemoteError(err))}
		} else {
			s.slot.release()
		}
		started <- err
		return
	}
	s.slot.accepted()
	defer s.slot.release()
	started <- nil
	s.status, s.err = exitStatus(session.Wait())
	s.stderr.end()
	close(s.exited)
	_ = session.Close()
}

func (s *stream) begin(command, line string) error {
	in, err := s.session.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.session.StdoutPipe()
	if err != nil {
		return err
	}
	s.in, s.out = in, bufio.NewReader(out)
	s.session.Stderr = s.stderr
	if err := s.session.Start(command); err != nil {
		return fmt.Errorf("running a command: %w", err)
	}
	_, _ = io.WriteString(in, line+"\n") // if the command has ended, it says why
	return nil
}

// startStream runs a line on the host and waits until its connection is ready.
func (h *Host) startStream(ctx context.Context, line string, by readiness) (*stream, error) {
	c, err := h.current()
	if err != nil {
		return nil, err
	}
	s, err := c.stream(ctx, posixsh.Line, line)
	if err != nil {
		return nil, err
	}
	if by.answered != "" {
		late := time.AfterFunc(by.timeout, func() { s.closeUnless(by.answered) })
		defer late.Stop()
	}
	if err := s.awaitReady(ctx, by); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.wait.opened()
	return s, nil
}

// awaitReady returns when the command's connection is open, or why it is not.
func (s *stream) awaitReady(ctx context.Context, by readiness) error {
	result := make(chan error, 1)
	if !s.conn.spawn(func() { result <- s.waitReady(by) }) {
		return s.conn.downError()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		_ = s.Close() // ends waitReady too
		return ctx.Err()
	}
}

// maxBefore bounds what the start-up files of shells may print before a connection.
const maxBefore = 1 << 20

func (s *stream) waitReady(by readiness) error {
	for left := maxBefore; ; {
		line, err := api.ReadLine(s.out, left)
		switch {
		case errors.Is(err, api.ErrLongLine):
			return &noWayError{by.way, classPassing.of(errPrints)}
		case err != nil:
			return s.failed(by)
		}
		if strings.TrimRight(line, "\r\n") == by.mark {
			break
		}
		left -= len(line)
	}
	if by.stderr != "" && !s.stderr.await(by.stderr) {
		return s.failed(by)
	}
	return nil
}

// failed says why a command ended before its connection was open.
func (s *stream) failed(by readiness) error {
	<-s.exited
	said := s.stderr.text().String()
	class := classUnknown
	if by.class != nil {
		class = by.class(s.stderr.raw())
	}
	switch {
	case s.conn.ended():
		return s.conn.downError()
	case s.err == nil && by.refused(s.status, said):
		return fmt.Errorf("%w: %s", api.ErrRefused, said)
	case s.unanswered.Load():
		return &noWayError{by.way, classPassing.of(errNodeSilent)}
	case said == "":
		said = fmt.Sprintf("exit status %d", s.status)
	}
	return &noWayError{by.way, class.of(errors.New(said))}
}

// closeUnless closes the stream if the command has not printed those words.
func (s *stream) closeUnless(words string) {
	if !strings.Contains(s.stderr.raw(), words) {
		s.unanswered.Store(true)
		_ = s.Close()
	}
}

// Read implements net.Conn. It returns io.EOF only if the command succeeded.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	<-s.exited
	switch {
	case s.err != nil:
		return n, s.err
	case s.status != 0:
		return n, fmt.Errorf("the relay to the node ended with status %d: %s", s.status, s.stderr.text())
	}
	return n, io.EOF
}

// Write implements net.Conn.
func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite closes the command's input.
func (s *stream) CloseWrite() error { return s.in.Close() }

// Close closes the session, which is the only way to end a command that every server
// has. It does not close the command's input before: x/crypto does not allow that during
// a Write.
func (s *stream) Close() error {
	s.closing.Do(func() { _ = s.session.Close() })
	s.wait.ended()
	return nil
}

// stderrBuffer is a command's standard error. It can be searched while the command runs,
// and keeps the end.
type stderrBuffer struct {
	mu      sync.Mutex
	all     bytes.Buffer
	ended   bool
	changed chan struct{} // closed at the next write, and at the end
}

func newStderrBuffer() *stderrBuffer { return &stderrBuffer{changed: make(chan struct{})} }

// Write implements io.Writer.
func (s *stderrBuffer) Write(p []byte) (int, error) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.Len() > most {
		s.all.Next(s.all.Len() / 2)
	}
	s.all.Write(p)
	s.notifyLocked()
	return len(p), nil
}

func (s *stderrBuffer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.notifyLocked()
}

func (s *stderrBuffer) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for words, and reports whether they came before the end.
func (s *stderrBuffer) await(words string) bool {
	for {
		s.mu.Lock()
		found, ended, changed := bytes.Contains(s.all.Bytes(), []byte(words)), s.ended, s.changed
		s.mu.Unlock()
		if found || ended {
			return found
		}
		<-changed
	}
}

// raw is all that is kept.
func (s *stderrBuffer) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// text is the last lines, without debug messages.
func (s *stderrBuffer) text() api.RemoteText {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for line := range strings.Lines(s.all.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "debug") && !strings.HasPrefix(line, "OpenSSH_") {
			lines = append(lines, line)
		}
	}
	return api.NewRemoteText(strings.Join(lines[max(0, len(lines)-3):], "; "))
}

var errPrints = errors.New("the host prints without end")

var errFewSessions = errors.New("the host allows only one session at a time, which is kept for commands")
