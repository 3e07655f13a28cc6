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

// pipes are how a master is given a program's input and outputs: it closes each end
// by itself, which a socket's two directions would not show.
type pipes struct {
	near []*os.File // ours: the input's writing end first
	far  []*os.File // the master's
}

// newPipes makes one for the input and one for each output.
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
		p.near, p.far = append(p.near, r), append(p.far, w)
	}
	return p, nil
}

// handedOver closes the ends that are the master's now.
func (p *pipes) handedOver() {
	for _, f := range p.far {
		_ = f.Close()
	}
}

func (p *pipes) close() {
	p.handedOver()
	for _, f := range p.near {
		_ = f.Close()
	}
}

// stream is a connection to an address beyond the host.
type stream struct {
	conn     *conn
	link     link
	pipes    *pipes
	requests chan *ssh.Request
}

// openStream asks for a connection to an address.
func (c *conn) openStream(host string, port uint32) (ssh.Channel, <-chan *ssh.Request, error) {
	p, err := newPipes(1)
	if err != nil {
		return nil, nil, err
	}
	l, _, err := c.begin(sayOpened, ssh.ConnectionFailed, func(l link) error {
		ask := struct {
			Kind, ID       uint32
			Reserved, Host string
			Port           uint32
		}{Kind: askStream, Host: host, Port: port}
		if err := l.write(ask); err != nil {
			return err
		}
		return l.give(p.far...)
	})
	p.handedOver()
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

// watch waits for the master to be done with the stream.
func (s *stream) watch() {
	_, _ = io.Copy(io.Discard, s.link)
	s.conn.drop(s.link)
	close(s.requests)
}

// Read implements ssh.Channel.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.pipes.near[1].Read(p)
	if n > 0 {
		s.conn.o.Heard()
	}
	return n, err
}

// Write implements ssh.Channel.
func (s *stream) Write(p []byte) (int, error) { return s.pipes.near[0].Write(p) }

// CloseWrite implements ssh.Channel.
func (s *stream) CloseWrite() error { return s.pipes.near[0].Close() }

// Close implements ssh.Channel.
func (s *stream) Close() error {
	s.pipes.close()
	s.conn.drop(s.link)
	return nil
}

// SendRequest implements ssh.Channel.
func (s *stream) SendRequest(string, bool, []byte) (bool, error) { return false, nil }

// Stderr implements ssh.Channel.
func (s *stream) Stderr() io.ReadWriter { return nothing{} }

// nothing is the error output of what has none.
type nothing struct{}

func (nothing) Read([]byte) (int, error)  { return 0, io.EOF }
func (nothing) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// socketStream is a stream that the master carries by a socket of its own or ours.
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
func (s *socketStream) Stderr() io.ReadWriter { return nothing{} }
