//go:build unix

package mux

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
)

// noEscape tells a master to forward every byte, also ~. sequences.
const noEscape = 0xffffffff

// session is a program on the host. A master opens the channel and starts the program in
// one step, so nothing happens before the request that names the program.
type session struct {
	conn     *conn
	requests chan *ssh.Request
	ready    chan struct{} // closed when the program has started, or never will

	mu       sync.Mutex
	env      []byte
	terminal *terminal // nil: no terminal
	started  bool      // a program was requested
	watched  bool      // it runs, and requests is closed at its end
	closed   bool
	link     link
	in, out  *os.File
	errs     *os.File // nil with a terminal
}

func newSession(c *conn) *session {
	return &session{conn: c, requests: make(chan *ssh.Request, 1), ready: make(chan struct{})}
}

// SendRequest implements ssh.Channel with the requests of RFC 4254, section 6.
func (s *session) SendRequest(name string, _ bool, payload []byte) (bool, error) {
	switch name {
	case "shell":
		return s.start("", false)
	case "exec", "subsystem":
		var program struct{ Name string }
		if err := ssh.Unmarshal(payload, &program); err != nil {
			return false, err
		}
		return s.start(program.Name, name == "subsystem")
	case "env":
		return s.setEnv(payload)
	case "pty-req":
		return s.allocTerminal(payload)
	case "window-change":
		return s.resize(payload)
	}
	return false, nil
}

func (s *session) setEnv(payload []byte) (bool, error) {
	var v struct{ Name, Value string }
	if err := ssh.Unmarshal(payload, &v); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = append(s.env, ssh.Marshal(struct{ Text string }{v.Name + "=" + v.Value})...)
	return true, nil // the master sends what its SendEnv names
}

// start makes the master open a session and run a program in it. An
// *ssh.OpenChannelError means that the server has no free session.
func (s *session) start(program string, subsystem bool) (bool, error) {
	ask := sessionRequest{Kind: clientNewSession, Escape: noEscape, Program: program}
	if subsystem {
		ask.Subsystem = 1
	}
	p, err := s.makePipes(&ask)
	if p == nil {
		return false, err
	}
	l, id, err := s.conn.request(serverSessionOpened, ssh.ResourceShortage, func(l link) error {
		if !s.setLink(l) {
			return net.ErrClosed
		}
		if err := l.write(ask); err != nil {
			return err
		}
		return l.sendFiles(p.theirs...)
	})
	p.closeTheirs()
	if err == nil && !s.connect(p, id) {
		s.conn.closeLink(l)
		err = net.ErrClosed
	}
	if err != nil {
		p.close()
		_ = s.Close() // a session runs only one program
	}
	return err == nil, err
}

// sessionRequest is MUX_C_NEW_SESSION.
type sessionRequest struct {
	Kind, ID                        uint32
	Reserved                        string
	Terminal, X11, Agent, Subsystem uint32
	Escape                          uint32
	Term, Program                   string
	Env                             []byte `ssh:"rest"`
}

// makePipes makes the program's input and output; nil if a program was already
// requested, or the session is closed.
func (s *session) makePipes(ask *sessionRequest) (*pipes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.closed {
		return nil, nil
	}
	s.started = true
	ask.Env = s.env
	if t := s.terminal; t != nil {
		ask.Terminal, ask.Term = 1, t.kind
		return &pipes{ours: []*os.File{t.ours}, theirs: []*os.File{t.theirs, t.theirs, t.theirs}}, nil
	}
	return newPipes(2)
}

// setLink records the link for Close, which ends the wait for a reply.
func (s *session) setLink(l link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	return !s.closed
}

// connect connects the pipes. It reports false if the session or the connection was
// closed.
func (s *session) connect(p *pipes, id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.conn.spawn(func() { s.watch(id) }) {
		return false
	}
	s.watched = true
	if s.terminal != nil {
		s.terminal.raw()
		s.in, s.out = p.ours[0], p.ours[0]
	} else {
		s.in, s.out, s.errs = p.ours[0], p.ours[1], p.ours[2]
	}
	close(s.ready)
	return true
}

// watch forwards the program's status and waits for the end of its channel.
func (s *session) watch(id uint32) {
	defer close(s.requests)
	defer s.conn.closeLink(s.link)
	for told := false; ; {
		kind, body, err := s.link.read()
		if err != nil {
			return
		}
		s.conn.o.Received()
		if kind == serverExitMessage && len(body) == 8 && binary.BigEndian.Uint32(body) == id && !told {
			told = true
			s.requests <- &ssh.Request{Type: "exit-status", Payload: body[4:]}
		}
	}
}

// Read implements ssh.Channel.
func (s *session) Read(p []byte) (int, error) {
	<-s.ready
	if s.out == nil {
		return 0, io.EOF
	}
	n, err := s.out.Read(p)
	if n > 0 {
		s.conn.o.Received()
	}
	if err != nil && s.errs == nil {
		err = io.EOF // reading a terminal whose other side is closed is an I/O error
	}
	return n, err
}

// Write implements ssh.Channel.
func (s *session) Write(p []byte) (int, error) {
	<-s.ready
	if s.in == nil {
		return 0, io.EOF
	}
	return s.in.Write(p)
}

// CloseWrite implements ssh.Channel. The input of a terminal cannot be half-closed.
func (s *session) CloseWrite() error {
	<-s.ready
	if s.errs == nil {
		return nil
	}
	return s.in.Close()
}

// Close implements ssh.Channel. The master hangs up on a program that still runs.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.terminal != nil {
		_ = s.terminal.ours.Close()
		_ = s.terminal.theirs.Close()
	}
	for _, f := range []*os.File{s.in, s.out, s.errs} {
		if f != nil {
			_ = f.Close()
		}
	}
	if s.link.Conn != nil {
		s.conn.closeLink(s.link)
	}
	if !s.watched {
		close(s.ready)
		close(s.requests)
	}
	return nil
}

// Stderr implements ssh.Channel.
func (s *session) Stderr() io.ReadWriter { return sessionStderr{s} }

// sessionStderr is a session's standard error.
type sessionStderr struct{ s *session }

func (e sessionStderr) Read(p []byte) (int, error) {
	<-e.s.ready
	if e.s.errs == nil {
		return 0, io.EOF
	}
	return e.s.errs.Read(p)
}

func (sessionStderr) Write([]byte) (int, error) { return noStderr{}.Write(nil) }
