// Package sshtest is an SSH server in a test's process, in memory and with faults: lost bytes,
// silence, wrong greetings, refused dials. It counts logins, and forwards to other such servers.
// Beside it are what its clients need: keys, certificates and an ssh-agent.
package sshtest

import (
	"context"
	"io"
	"net"
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

	// What it does in place of what this package has for that. Set before the first dial.
	Channel func(ssh.NewChannel)                     // serves every channel
	Exec    func(command string, ch ssh.Channel) int // runs every command, and returns its status
	Forward func(ssh.Channel)                        // is what every forwarded connection leads to
	Used    func(what string, n int)                 // is told of "dials", "logins", "requests" and "bytes"

	mu       sync.Mutex
	logins   int // connections that began to log in
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

// NewServer makes a server that offers some ways to log in.
func NewServer(t testing.TB, logins ...Login) *Server {
	t.Helper()
	return NewServerWithKey(t, NewSigner(t), logins...)
}

// NewServerWithKey makes a server with a host key.
func NewServerWithKey(t testing.TB, key ssh.Signer, logins ...Login) *Server {
	t.Helper()
	s := &Server{Key: key, live: map[*serverConn]bool{}, Used: func(string, int) {}}
	s.Config = &ssh.ServerConfig{MaxAuthTries: 6, AuthLogCallback: s.countLogin}
	s.Config.KeyExchanges = []string{ssh.KeyExchangeCurve25519} // the cheapest
	s.Config.AddHostKey(key)
	All(logins...)(s.Config)
	t.Cleanup(func() {
		s.Set(func(s *Server) { s.Refuse = net.ErrClosed }) // one before it may still dial
		s.Drop()
		s.wg.Wait()
	})
	return s
}

func (s *Server) countLogin(_ ssh.ConnMetadata, method string, _ error) {
	if method != "none" {
		return
	}
	s.Used("logins", 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins++
}

// Dial is a Pool's dial that ends at this server.
func (s *Server) Dial(context.Context, *net.Dialer, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	s.Used("dials", 1)
	if s.Refuse != nil {
		return nil, s.Refuse
	}
	client, server, l := newLink()
	l.moved = func(n int) { s.Used("bytes", n) }
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

// Dial is a Pool's dial that knows servers by their names.
func Dial(servers map[string]*Server) func(context.Context, *net.Dialer, string, string) (net.Conn, error) {
	return func(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
		name, _, _ := net.SplitHostPort(address)
		if s := servers[name]; s != nil {
			return s.Dial(ctx, d, network, address)
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
}

// Listen serves on a port of 127.0.0.1 too.
func (s *Server) Listen(t testing.TB) (port int) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			inner, err := s.Dial(context.Background(), nil, "", "")
			if err != nil {
				_ = c.Close()
				continue
			}
			s.wg.Go(func() { s.join(c, inner) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// join copies in both directions until one has ended.
func (s *Server) join(a, b io.ReadWriteCloser) {
	s.wg.Go(func() {
		_, _ = io.Copy(b, a)
		_ = b.Close()
	})
	_, _ = io.Copy(a, b)
	_ = a.Close()
}

// Known is the line of known_hosts that has the server's key by a name.
func (s *Server) Known(name string) string { return name + " " + Authorized(s.Key.PublicKey()) + "\n" }

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
	s.wg.Go(func() { s.answer(requests) })
	for ch := range channels {
		s.wg.Go(func() { s.channel(ch) })
	}
}

// answer accepts requests for listeners, and refuses others.
func (s *Server) answer(requests <-chan *ssh.Request) {
	for r := range requests {
		s.Used("requests", 1)
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
	switch kind := nc.ChannelType(); {
	case s.Channel != nil:
		s.Channel(nc)
	case kind == "session":
		s.session(nc)
	case kind == "direct-tcpip":
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
	switch {
	case own != nil:
		status = own(ch)
	case s.Exec != nil:
		status = s.Exec(command, ch)
	case command == "hostname":
		_, _ = io.WriteString(ch, "login2.example.org\n")
	case command == "cat":
		_, _ = io.Copy(ch, ch)
	case command == "false":
		_, _ = io.WriteString(ch.Stderr(), "no\n")
		status = 1
	case command == "flood":
		for {
			if _, err := ch.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	case command == "sleep":
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
	case s.Forward != nil:
		s.connect(nc, s.Forward)
	case to.Host == "echo":
		s.connect(nc, func(ch ssh.Channel) {
			_, _ = io.Copy(ch, ch)
			_ = ch.CloseWrite()
		})
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
		s.connect(nc, func(ch ssh.Channel) { s.join(ch, inner) })
		_ = inner.Close()
	default:
		_ = nc.Reject(ssh.Prohibited, "administratively prohibited")
	}
}

// connect accepts a channel, and closes it after serve.
func (s *Server) connect(nc ssh.NewChannel, serve func(ssh.Channel)) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	s.wg.Go(func() { ssh.DiscardRequests(requests) })
	serve(ch)
	_ = ch.Close()
}

// Drop ends every connection.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		_ = c.Close()
	}
}

// Cut ends every connection as a network does that resets them.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.live {
		c.link.cutOff()
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

// Dials is how often the server was dialed.
func (s *Server) Dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// Logins is how many connections began to log in.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// WantLogins fails a test unless so many connections began to log in.
func (s *Server) WantLogins(t testing.TB, want int) {
	t.Helper()
	if n := s.Logins(); n != want {
		t.Errorf("%d logins, want %d", n, want)
	}
}
