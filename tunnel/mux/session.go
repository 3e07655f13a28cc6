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

// noEscape tells a master to pass every byte on, `~.` too.
const noEscape = 0xffffffff

// session is a program on the host. A master opens the channel and starts the program
// in one go, so that nothing happens before the request that names the program.
type session struct {
	conn     *conn
	requests chan *ssh.Request
	ready    chan struct{} // closed when the program has been started, or never will be

	mu       sync.Mutex
	env      []byte
	terminal *terminal // nil: none is wanted
	begun    bool      // a program was named
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
		return s.wantTerminal(payload)
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
	return true, nil // the master passes on what its SendEnv names
}

// start has the master open a session and run a program in it. An
// *ssh.OpenChannelError is the server's word that it has no session to spare.
func (s *session) start(program string, subsystem bool) (bool, error) {
	ask := request{Kind: askSession, Escape: noEscape, Program: program}
	if subsystem {
		ask.Subsystem = 1
	}
	p, err := s.prepare(&ask)
	if p == nil {
		return false, err
	}
	l, id, err := s.conn.begin(sayOpened, ssh.ResourceShortage, func(l link) error {
		if !s.hold(l) {
			return net.ErrClosed
		}
		if err := l.write(ask); err != nil {
			return err
		}
		return l.give(p.far...)
	})
	p.handedOver()
	if err == nil && !s.started(p, id) {
		s.conn.drop(l)
		err = net.ErrClosed
	}
	if err != nil {
		p.close()
		_ = s.Close() // there is no other program to be had from it
	}
	return err == nil, err
}

// request is what a master is asked for a session with.
type request struct {
	Kind, ID                        uint32
	Reserved                        string
	Terminal, X11, Agent, Subsystem uint32
	Escape                          uint32
	Term, Program                   string
	Env                             []byte `ssh:"rest"`
}

// prepare makes the files that the program's input and output are. There are none
// when it is too late for a program.
func (s *session) prepare(ask *request) (*pipes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.closed {
		return nil, nil
	}
	s.begun = true
	ask.Env = s.env
	if t := s.terminal; t != nil {
		ask.Terminal, ask.Term = 1, t.kind
		return &pipes{near: []*os.File{t.near}, far: []*os.File{t.far, t.far, t.far}}, nil
	}
	return newPipes(2)
}

// hold keeps the link for Close, which ends the wait for an answer.
func (s *session) hold(l link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	return !s.closed
}

// started lets data flow, unless the session or the connection was closed meanwhile.
func (s *session) started(p *pipes, id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.conn.spawn(func() { s.watch(id) }) {
		return false
	}
	s.watched = true
	if s.terminal != nil {
		s.terminal.raw()
		s.in, s.out = p.near[0], p.near[0]
	} else {
		s.in, s.out, s.errs = p.near[0], p.near[1], p.near[2]
	}
	close(s.ready)
	return true
}

// watch passes the program's status on and waits for the end of its channel.
func (s *session) watch(id uint32) {
	defer close(s.requests)
	defer s.conn.drop(s.link)
	for told := false; ; {
		kind, body, err := s.link.read()
		if err != nil {
			return
		}
		s.conn.o.Heard()
		if kind == sayExit && len(body) == 8 && binary.BigEndian.Uint32(body) == id && !told {
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
		s.conn.o.Heard()
	}
	if err != nil && s.errs == nil {
		err = io.EOF // a terminal whose other side is closed reads as an I/O error
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

// CloseWrite implements ssh.Channel. A terminal has no end of input.
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
		_ = s.terminal.near.Close()
		_ = s.terminal.far.Close()
	}
	for _, f := range []*os.File{s.in, s.out, s.errs} {
		if f != nil {
			_ = f.Close()
		}
	}
	if s.link.Conn != nil {
		s.conn.drop(s.link)
	}
	if !s.watched {
		close(s.ready)
		close(s.requests)
	}
	return nil
}

// Stderr implements ssh.Channel.
func (s *session) Stderr() io.ReadWriter { return aside{s} }

// aside is a session's error output.
type aside struct{ s *session }

func (a aside) Read(p []byte) (int, error) {
	<-a.s.ready
	if a.s.errs == nil {
		return 0, io.EOF
	}
	return a.s.errs.Read(p)
}

func (aside) Write([]byte) (int, error) { return nothing{}.Write(nil) }
