// Package sshtest is an SSH server in a test's process, with faults: lost bytes, silence,
// wrong greetings, refused dials. It counts logins, and forwards to other such servers.
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Server is an SSH server in the test's process, with faults. It counts logins.
type Server struct {
	Key    ssh.Signer
	Config *ssh.ServerConfig

	mu       sync.Mutex
	logins   int // connections that began to log in
	accepted int // those that succeeded
	dials    int
	live     map[*serverConn]bool
	Refuse   error  // what a dial fails with
	Greeting string // said in place of SSH, when set
	Silent   bool   // accepts and says nothing
	paused   bool   // drops all bytes in both directions
	NoExec   bool
	Inner    map[string]*Server // what is reached through this one
	Execs    []string
	Commands map[string]func(ssh.Channel) int // what a command does, and its status
	wg       sync.WaitGroup
}

type serverConn struct {
	net.Conn
	link *link
	ssh  *ssh.ServerConn // nil before the login
}

// NewServer makes a server that accepts what configure sets.
func NewServer(t testing.TB, configure func(*ssh.ServerConfig)) *Server {
	t.Helper()
	s := &Server{Key: NewSigner(t), live: map[*serverConn]bool{}}
	s.Config = &ssh.ServerConfig{MaxAuthTries: 6}
	configure(s.Config)
	s.Config.AddHostKey(s.Key)
	s.Config.AuthLogCallback = func(_ ssh.ConnMetadata, method string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if method == "none" {
			s.logins++
		}
		if err == nil {
			s.accepted++
		}
	}
	t.Cleanup(func() {
		s.Drop()
		s.wg.Wait()
	})
	return s
}

// AcceptKey lets one key in.
func AcceptKey(key ssh.PublicKey) func(*ssh.ServerConfig) {
	return func(c *ssh.ServerConfig) {
		c.PublicKeyCallback = func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(offered.Marshal(), key.Marshal()) {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		}
	}
}

// Dial is a Pool's dial that ends at this server.
func (s *Server) Dial(context.Context, *net.Dialer, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if s.Refuse != nil {
		return nil, s.Refuse
	}
	client, server, l := NewLink()
	l.setPaused(s.paused)
	c := &serverConn{Conn: server, link: l}
	s.live[c] = true
	s.wg.Go(func() {
		s.serve(c)
		s.mu.Lock()
		delete(s.live, c)
		s.mu.Unlock()
		_ = c.Close()
	})
	return client, nil
}

func (s *Server) serve(c *serverConn) {
	s.mu.Lock()
	greeting, silent := s.Greeting, s.Silent
	s.mu.Unlock()
	if silent {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	if greeting != "" {
		_, _ = io.WriteString(c, greeting)
		return
	}
	sc, channels, requests, err := ssh.NewServerConn(c, s.Config)
	if err != nil {
		return
	}
	defer func() { _ = sc.Close() }()
	s.Set(func(*Server) { c.ssh = sc })
	s.wg.Go(func() { acceptListeners(requests) })
	for ch := range channels {
		s.wg.Go(func() { s.channel(ch) })
	}
}

// acceptListeners accepts requests for listeners, and refuses others.
func acceptListeners(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.WantReply {
			_ = r.Reply(r.Type == "tcpip-forward", nil)
		}
	}
}

// Stream has a stream arrive at a port of 127.0.0.1 at which each connection listens.
func (s *Server) Stream(port uint32) {
	at := ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{"127.0.0.1", port, "127.0.0.1", 1})
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		s.wg.Go(func() {
			if ch, requests, err := c.ssh.OpenChannel("forwarded-tcpip", at); err == nil {
				_ = ch.Close()
				ssh.DiscardRequests(requests)
			}
		})
	}
}

func (s *Server) channel(nc ssh.NewChannel) {
	switch nc.ChannelType() {
	case "session":
		s.session(nc)
	case "direct-tcpip":
		s.forward(nc)
	default:
		_ = nc.Reject(ssh.UnknownChannelType, "unknown")
	}
}

// session answers a few commands.
func (s *Server) session(nc ssh.NewChannel) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	defer func() { _ = ch.Close() }()
	for r := range requests {
		if r.Type != "exec" || s.NoExec {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		var exec struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &exec)
		s.mu.Lock()
		s.Execs = append(s.Execs, exec.Command)
		s.mu.Unlock()
		s.command(ch, exec.Command, requests)
		return
	}
}

func (s *Server) command(ch ssh.Channel, command string, requests <-chan *ssh.Request) {
	status := 0
	s.mu.Lock()
	own := s.Commands[command]
	s.mu.Unlock()
	if own != nil {
		status = own(ch)
	}
	switch command {
	case "hostname":
		_, _ = io.WriteString(ch, "login2.example.org\n")
	case "cat":
		_, _ = io.Copy(ch, ch)
	case "false":
		_, _ = io.WriteString(ch.Stderr(), "no\n")
		status = 1
	case "flood":
		for {
			if _, err := ch.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	case "sleep":
		ssh.DiscardRequests(requests) // until the channel is closed
		return
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

// forward connects to "echo:1", refuses "refused:1", is silent at names that begin with
// "dropped" as a firewall is, and forbids all else, unless a server of that name exists.
func (s *Server) forward(nc ssh.NewChannel) {
	var to struct {
		Host  string
		Port  uint32
		From  string
		FromP uint32
	}
	_ = ssh.Unmarshal(nc.ExtraData(), &to)
	switch {
	case to.Host == "echo":
		ch, requests, err := nc.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { ssh.DiscardRequests(requests) })
		_, _ = io.Copy(ch, ch)
		_ = ch.CloseWrite()
		_ = ch.Close()
	case strings.HasPrefix(to.Host, "dropped"):
		time.Sleep(2 * time.Minute) // as TCP gives up
		_ = nc.Reject(ssh.ConnectionFailed, "Connection timed out")
	case to.Host == "refused":
		_ = nc.Reject(ssh.ConnectionFailed, "Connection refused")
	case s.Inner[to.Host] != nil:
		inner, err := s.Inner[to.Host].Dial(context.Background(), nil, "", "")
		if err != nil {
			_ = nc.Reject(ssh.ConnectionFailed, err.Error())
			return
		}
		ch, requests, err := nc.Accept()
		if err != nil {
			_ = inner.Close()
			return
		}
		s.wg.Go(func() { ssh.DiscardRequests(requests) })
		s.wg.Go(func() { _, _ = io.Copy(inner, ch); _ = inner.Close() })
		_, _ = io.Copy(ch, inner)
		_ = ch.Close()
	default:
		_ = nc.Reject(ssh.Prohibited, "administratively prohibited")
	}
}

// Drop ends every connection.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		_ = c.Close()
	}
}

// HangUp ends every connection as TCP does: what comes for it is taken for a while.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.link.hangUp()
	}
}

// Pause makes every connection, live and new, lose all bytes, with no end of either.
func (s *Server) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	for c := range s.live {
		c.link.setPaused(on)
	}
}

// Stall makes the live connections lose all bytes, and returns what ends that. New ones
// are not affected, as after a change that only a firewall on the way has forgotten.
func (s *Server) Stall() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var links []*link
	for c := range s.live {
		links = append(links, c.link)
		c.link.setPaused(true)
	}
	return func() {
		for _, l := range links {
			l.setPaused(false)
		}
	}
}

// Connections is how many there are.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// Set changes the server's faults.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Counts are how often the server was dialed, logged in to, and opened a channel.
func (s *Server) Counts() (dials, logins, accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials, s.logins, s.accepted
}

// link is two connected ends in memory, with buffers as TCP has, which net.Pipe
// has not: both ends of an SSH handshake write first.
type link struct {
	mu     sync.Mutex
	cond   *sync.Cond
	paused bool
	hungUp bool    // the client gets nothing any more, and may send
	closed [2]bool // by the end that reads that way
	way    [2]bytes.Buffer
}

type linkEnd struct {
	*link
	in, out int
}

// NewLink returns the two ends of a connection that can be paused and cut.
func NewLink() (client, server net.Conn, l *link) {
	l = &link{}
	l.cond = sync.NewCond(&l.mu)
	return &linkEnd{l, 0, 1}, &linkEnd{l, 1, 0}, l
}

func (l *link) setPaused(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = on
	l.cond.Broadcast()
}

func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hungUp = true
	l.cond.Broadcast()
}

func (e *linkEnd) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.hungUp && e.in == 0 {
			return 0, io.EOF
		}
		if e.way[e.in].Len() > 0 && !e.paused {
			return e.way[e.in].Read(p)
		}
		if e.closed[e.in] {
			return 0, net.ErrClosed
		}
		if e.closed[e.out] && !e.paused {
			return 0, io.EOF
		}
		e.cond.Wait()
	}
}

func (e *linkEnd) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed[e.in] || e.closed[e.out] && !e.paused {
		return 0, net.ErrClosed
	}
	e.cond.Broadcast()
	return e.way[e.out].Write(p)
}

func (e *linkEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed[e.in] = true
	e.cond.Broadcast()
	return nil
}

func (e *linkEnd) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

func (e *linkEnd) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 22} }
func (e *linkEnd) SetDeadline(time.Time) error      { return errors.ErrUnsupported }
func (e *linkEnd) SetReadDeadline(time.Time) error  { return errors.ErrUnsupported }
func (e *linkEnd) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// NewSigner returns a new key.
func NewSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// NewKeyFile writes a new private key.
func NewKeyFile(t testing.TB) (path string, public ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	path = t.TempDir() + "/id"
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return path, s.PublicKey()
}
