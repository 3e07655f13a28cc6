//go:build unix

package mux

import (
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// socketStream is a connection from the host, which the master forwards to a socket of
// ours. A master that dies closes it as one whose data has ended does: only a live master
// makes an end complete.
type socketStream struct {
	*net.UnixConn
	complete func() bool // at the end of the data
	requests chan *ssh.Request
	once     sync.Once
}

func newSocketStream(c *net.UnixConn, alive func() bool) *socketStream {
	return &socketStream{UnixConn: c, complete: sync.OnceValue(alive), requests: make(chan *ssh.Request)}
}

// Read implements ssh.Channel.
func (s *socketStream) Read(p []byte) (int, error) {
	n, err := s.UnixConn.Read(p)
	if errors.Is(err, io.EOF) && !s.complete() {
		err = io.ErrUnexpectedEOF
	}
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

// noStderr is the standard error of a channel that has none.
type noStderr struct{}

func (noStderr) Read([]byte) (int, error)  { return 0, io.EOF }
func (noStderr) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
