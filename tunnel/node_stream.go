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

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// stream is a command's standard input and output as a connection.
type stream struct {
	programPipes
	conn    *conn
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *stderrBuffer
	exited  chan struct{}
	status  int
	err     error // why there is no status
	closing sync.Once
	wait    channelWait
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
	return open(ctx, c, func() (*stream, error) {
		s := &stream{conn: c, wait: channelWait{all: &c.clients}, stderr: newStderrBuffer(), exited: make(chan struct{}), status: -1}
		err := s.begin(command, line)
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused {
			slot.refused()
			return nil, &noWayError{"a command on the host", fmt.Errorf("the host allows no more sessions: %w", api.RemoteError(err))}
		}
		if err != nil {
			slot.release()
			return nil, err
		}
		slot.accepted()
		c.wg.Go(func() {
			defer slot.release()
			s.status, s.err = exitStatus(s.session.Wait())
			s.stderr.end()
			close(s.exited)
			_ = s.session.Close()
		})
		return s, nil
	}, closeLate[*stream])
}

// begin starts the command, and sends it its first line.
func (s *stream) begin(command, line string) (err error) {
	if s.session, err = s.conn.client.NewSession(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.session.Close()
		}
	}()
	if s.in, err = s.session.StdinPipe(); err != nil {
		return err
	}
	out, err := s.session.StdoutPipe()
	if err != nil {
		return err
	}
	s.out, s.session.Stderr = bufio.NewReader(out), s.stderr
	if err := s.session.Start(command); err != nil {
		return fmt.Errorf("running a command: %w", err)
	}
	_, _ = io.WriteString(s.in, line+"\n") // if the command has ended, it says why
	return nil
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

// stderrBuffer is what a command prints on standard error. It can be searched while the command runs,
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

// tail is the end of it.
func (s *stderrBuffer) tail() api.RemoteText {
	const most = 2000
	raw := s.raw()
	return api.NewRemoteText(raw[max(0, len(raw)-most):])
}

// raw is all that is kept.
func (s *stderrBuffer) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// text is the last lines, without debug messages.
func (s *stderrBuffer) text() api.RemoteText {
	var lines []string
	for line := range strings.Lines(s.raw()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "debug") && !strings.HasPrefix(line, "OpenSSH_") {
			lines = append(lines, line)
		}
	}
	return api.NewRemoteText(strings.Join(lines[max(0, len(lines)-3):], "; "))
}

var errFewSessions = errors.New("the host allows only one session at a time, which is kept for commands")
