package tunnel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// spareSessions are left to commands when connections take sessions too.
const spareSessions = 2

// stream is a command's standard input and output as a connection.
type stream struct {
	conn    *conn
	slot    *slot
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	said    *spoken
	exited  chan struct{}
	status  int
	err     error // how waiting for the status failed
	closing sync.Once

	unanswered atomic.Bool // it was ended because the node kept silent
}

// signs are how a command tells that its far end stands, or never will.
type signs struct {
	way     string
	mark    string // a line on its output; what comes before is not the connection's
	more    string // said on standard error after that, if anything
	refused func(exit int, said string) bool

	class   func(said string) failureClass // of its failure; nil: not known
	greeted string                         // said once the node has answered; "": never said
	within  time.Duration                  // how long the node has to answer
}

// stream starts a command that carries a connection, and gives it its first line.
// It waits for a session, of which the last ones are kept for commands that end.
func (c *conn) stream(ctx context.Context, command, line string) (*stream, error) {
	slot, err := c.slots.takeLeaving(ctx, c.done)
	if err != nil {
		if c.ended() {
			return nil, c.gone()
		}
		return nil, err
	}
	s := &stream{conn: c, slot: slot, said: newSpoken(), exited: make(chan struct{}), status: -1}
	started := make(chan error, 1)
	if !c.spawn(func() { s.run(command, line, started) }) {
		slot.give()
		return nil, c.gone()
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

// run is the command from its session's opening to its end.
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
			s.slot.give()
		}
		started <- err
		return
	}
	s.slot.open()
	defer s.slot.give()
	started <- nil
	s.status, s.err = exitStatus(session.Wait())
	s.said.end()
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
	s.session.Stderr = s.said
	if err := s.session.Start(command); err != nil {
		return fmt.Errorf("running a command: %w", err)
	}
	_, _ = io.WriteString(in, line+"\n") // a command that is gone already says why
	return nil
}

// await returns when the command has given its signs, or says why it did not.
func (s *stream) await(ctx context.Context, by signs) error {
	result := make(chan error, 1)
	if !s.conn.spawn(func() { result <- s.look(by) }) {
		return s.conn.gone()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		_ = s.Close() // which ends the look, too
		return ctx.Err()
	}
}

func (s *stream) look(by signs) error {
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return s.failed(by)
		}
		if strings.TrimRight(line, "\r\n") == by.mark {
			break
		}
	}
	if by.more != "" && !s.said.await(by.more) {
		return s.failed(by)
	}
	return nil
}

// failed says why a command ended before its connection stood.
func (s *stream) failed(by signs) error {
	<-s.exited
	said := s.said.text().String()
	class := classUnknown
	if by.class != nil {
		class = by.class(s.said.raw())
	}
	switch {
	case s.conn.ended():
		return s.conn.gone()
	case s.err == nil && by.refused(s.status, said):
		return fmt.Errorf("%w: %s", api.ErrRefused, said)
	case s.unanswered.Load():
		return &noWayError{by.way, classPassing.of(errNodeSilent)}
	case said == "":
		said = fmt.Sprintf("exit status %d", s.status)
	}
	return &noWayError{by.way, class.of(errors.New(said))}
}

// endUnless ends a command that has not said some words yet.
func (s *stream) endUnless(words string) {
	if !strings.Contains(s.said.raw(), words) {
		s.unanswered.Store(true)
		_ = s.Close()
	}
}

// Read implements net.Conn. A command that failed, or was cut off, is no end of file.
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
		return n, fmt.Errorf("the relay to the node ended with status %d: %s", s.status, s.said.text())
	}
	return n, io.EOF
}

// Write implements net.Conn.
func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite ends the command's input.
func (s *stream) CloseWrite() error { return s.in.Close() }

// Close ends the session, which is all a server offers to end a command.
func (s *stream) Close() error {
	s.closing.Do(func() {
		_ = s.in.Close()
		_ = s.session.Close()
	})
	return nil
}

// The rest of net.Conn: a command has no addresses, and no deadlines are set on it.

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return proxyAddr{} }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return proxyAddr{} }

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements net.Conn.
func (s *stream) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements net.Conn.
func (s *stream) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// spoken is a command's standard error: looked at while it comes, its last lines
// kept.
type spoken struct {
	mu    sync.Mutex
	all   bytes.Buffer
	over  bool
	heard chan struct{} // closed at the next word, or the end
}

func newSpoken() *spoken { return &spoken{heard: make(chan struct{})} }

// Write implements io.Writer.
func (s *spoken) Write(p []byte) (int, error) {
	const most = 64 << 10
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.Len() > most {
		s.all.Next(s.all.Len() / 2)
	}
	s.all.Write(p)
	s.stirLocked()
	return len(p), nil
}

func (s *spoken) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stirLocked()
}

func (s *spoken) stirLocked() {
	close(s.heard)
	s.heard = make(chan struct{})
}

// await waits for words, and reports whether they came before the end.
func (s *spoken) await(words string) bool {
	for {
		s.mu.Lock()
		found, over, heard := bytes.Contains(s.all.Bytes(), []byte(words)), s.over, s.heard
		s.mu.Unlock()
		if found || over {
			return found
		}
		<-heard
	}
}

// raw is all that was said and is kept.
func (s *spoken) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// text is what was said to a person.
func (s *spoken) text() api.RemoteText {
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

// errFewSessions says that connections would leave no session for commands.
var errFewSessions = errors.New("the host allows too few sessions to use them for connections")
