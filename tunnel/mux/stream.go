//go:build unix

package mux

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
)

// pipes are a program's input and outputs, of which the master gets the other ends. It
// closes each separately, which would not show on one socket.
type pipes struct {
	ours   []*os.File // the input's writing end first
	theirs []*os.File
}

// newPipes makes one pipe for the input and one for each output.
func newPipes(outputs int) (*pipes, error) {
	p := &pipes{}
	for i := range 1 + outputs {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		p.ours, p.theirs = append(p.ours, r), append(p.theirs, w)
	}
	return p, nil
}

// closeTheirs closes our copies of the ends that the master has now.
func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
}

func (p *pipes) close() {
	p.closeTheirs()
	for _, f := range p.ours {
		_ = f.Close()
	}
}

// stream is a connection to an address through the host.
type stream struct {
	conn     *conn
	link     link
	pipes    *pipes
	requests chan *ssh.Request
}

// openStream connects to an address.
func (c *conn) openStream(host string, port uint32) (ssh.Channel, <-chan *ssh.Request, error) {
	p, err := newPipes(1)
	if err != nil {
		return nil, nil, err
	}
	l, _, err := c.request(serverSessionOpened, ssh.ConnectionFailed, func(l link) error {
		ask := struct {
			Kind, ID       uint32
			Reserved, Host string
			Port           uint32
		}{Kind: clientNewStdioForward, Host: host, Port: port}
		if err := l.write(ask); err != nil {
			return err
		}
		return l.sendFiles(p.theirs...)
	})
	p.closeTheirs()
	if err != nil {
		p.close()
		return nil, nil, err
	}
	s := &stream{conn: c, link: l, pipes: p, requests: make(chan *ssh.Request)}
	if !c.spawn(s.watch) {
		_ = s.Close()
		close(s.requests)
	}
	return s, s.requests, nil
}

// watch waits until the master has closed the stream.
func (s *stream) watch() {
	_, _ = io.Copy(io.Discard, s.link)
	s.conn.closeLink(s.link)
	close(s.requests)
}

// Read implements ssh.Channel.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.pipes.ours[1].Read(p)
	if n > 0 {
		s.conn.o.Received()
	}
	return n, err
}

// Write implements ssh.Channel.
func (s *stream) Write(p []byte) (int, error) { return s.pipes.ours[0].Write(p) }

// CloseWrite implements ssh.Channel.
func (s *stream) CloseWrite() error { return s.pipes.ours[0].Close() }

// Close implements ssh.Channel.
func (s *stream) Close() error {
	s.pipes.close()
	s.conn.closeLink(s.link)
	return nil
}

// SendRequest implements ssh.Channel.
func (s *stream) SendRequest(string, bool, []byte) (bool, error) { return false, nil }

// Stderr implements ssh.Channel.
func (s *stream) Stderr() io.ReadWriter { return noStderr{} }

// noStderr is the standard error of a channel that has none.
type noStderr struct{}

func (noStderr) Read([]byte) (int, error)  { return 0, io.EOF }
func (noStderr) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// socketStream is a stream over a unix socket, the master's or ours.
type socketStream struct {
	*net.UnixConn
	requests chan *ssh.Request
	once     sync.Once
}

func newSocketStream(c *net.UnixConn) *socketStream {
	return &socketStream{UnixConn: c, requests: make(chan *ssh.Request)}
}

// Read implements ssh.Channel.
func (s *socketStream) Read(p []byte) (int, error) {
	n, err := s.UnixConn.Read(p)
	if err != nil {
		s.ended()
	}
	return n, err
}

// Close implements ssh.Channel.
func (s *socketStream) Close() error {
	s.ended()
	return s.UnixConn.Close()
}

func (s *socketStream) ended() { s.once.Do(func() { close(s.requests) }) }

// SendRequest implements ssh.Channel.
func (s *socketStream) SendRequest(string, bool, []byte) (bool, error) { return false, nil }

// Stderr implements ssh.Channel.
func (s *socketStream) Stderr() io.ReadWriter { return noStderr{} }
