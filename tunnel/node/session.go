package node

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/latest"
	"tunctl/tunnel/step"
)

// jobSession is a session inside the job. If the node has no server of files, an sftp
// subsystem is opened elsewhere. Data can come only from what was started.
type jobSession struct {
	inside   ssh.Channel
	received <-chan *ssh.Request // from inside
	openSFTP func(context.Context) (ssh.Channel, <-chan *ssh.Request, error)
	requests chan *ssh.Request // for the caller

	settling sync.Once
	settled  chan struct{} // closed when target is set
	target   ssh.Channel
}

// sftpTimeout bounds the opening of an sftp subsystem elsewhere.
const sftpTimeout = 30 * time.Second

func newJobSession(ch ssh.Channel, received <-chan *ssh.Request,
	openSFTP func(context.Context) (ssh.Channel, <-chan *ssh.Request, error),
) (ssh.Channel, <-chan *ssh.Request) {
	s := &jobSession{inside: ch, received: received, openSFTP: openSFTP, requests: make(chan *ssh.Request), settled: make(chan struct{})}
	return s, s.requests
}

// settle sets where the session's program is, and passes on what comes from there until
// it closes its channel.
func (s *jobSession) settle(target ssh.Channel, received <-chan *ssh.Request) {
	s.settling.Do(func() {
		s.target = target
		close(s.settled)
		go func() {
			defer close(s.requests)
			for r := range received {
				s.requests <- r
			}
		}()
	})
}

// SendRequest implements ssh.Channel.
func (s *jobSession) SendRequest(name string, wantReply bool, payload []byte) (bool, error) {
	if latest.IsClosed(s.settled) {
		return s.target.SendRequest(name, wantReply, payload)
	}
	if name == "subsystem" && isSFTP(payload) {
		return s.startSFTP(payload)
	}
	if name == "shell" || name == "exec" || name == "subsystem" {
		defer s.settle(s.inside, s.received)
	}
	return s.inside.SendRequest(name, wantReply, payload)
}

// startSFTP starts the node's server of files, or another.
func (s *jobSession) startSFTP(payload []byte) (bool, error) {
	defer s.settle(s.inside, s.received) // unless it is elsewhere
	ok, err := s.inside.SendRequest("subsystem", true, payload)
	if ok || err != nil && !errors.Is(err, step.ErrNoSFTP) {
		return ok, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sftpTimeout)
	defer cancel()
	ch, received, err := s.openSFTP(ctx)
	if err != nil {
		return false, err
	}
	if ok, err = ch.SendRequest("subsystem", true, payload); !ok || err != nil {
		_ = ch.Close()
		go ssh.DiscardRequests(received)
		return false, err
	}
	_ = s.inside.Close()
	go ssh.DiscardRequests(s.received)
	s.settle(ch, received)
	return true, nil
}

// started is where the session's program is, once there is one.
func (s *jobSession) started() ssh.Channel {
	<-s.settled
	return s.target
}

// Read implements ssh.Channel.
func (s *jobSession) Read(p []byte) (int, error) { return s.started().Read(p) }

// Write implements ssh.Channel.
func (s *jobSession) Write(p []byte) (int, error) { return s.started().Write(p) }

// CloseWrite implements ssh.Channel.
func (s *jobSession) CloseWrite() error { return s.started().CloseWrite() }

// Close implements ssh.Channel.
func (s *jobSession) Close() error {
	s.settle(s.inside, s.received)
	return s.target.Close()
}

// Stderr implements ssh.Channel.
func (s *jobSession) Stderr() io.ReadWriter { return jobStderr{s} }

type jobStderr struct{ s *jobSession }

func (e jobStderr) Read(p []byte) (int, error)  { return e.s.started().Stderr().Read(p) }
func (e jobStderr) Write(p []byte) (int, error) { return e.s.started().Stderr().Write(p) }

// isSFTP reports whether a subsystem request asks for sftp.
func isSFTP(payload []byte) bool {
	var subsystem struct{ Name string }
	return ssh.Unmarshal(payload, &subsystem) == nil && subsystem.Name == "sftp"
}
