//go:build unix

package mux

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// The kinds of forwards, and the port number that stands for a socket's path.
const (
	forwardLocal  = 1
	forwardRemote = 2
	socketPort    = 0xfffffffe
)

// forward is one in a master's list, which it finds again by all of these.
type forward struct {
	Kind       uint32
	Listen     string
	ListenPort uint32
	To         string
	ToPort     uint32
}

// listener takes what a master forwards from the host to a socket of ours.
type listener struct {
	*net.UnixListener
	asked forward // as the master has it in its list
}

// tcpForward and socketForward read the requests of RFC 4254, section 7.1, and of
// OpenSSH's PROTOCOL, section 2.4.
func tcpForward(payload []byte) (forward, error) {
	var at struct {
		Host string
		Port uint32
	}
	err := ssh.Unmarshal(payload, &at)
	return forward{Kind: forwardRemote, Listen: at.Host, ListenPort: at.Port}, err
}

func socketForward(payload []byte) (forward, error) {
	var at struct{ Path string }
	err := ssh.Unmarshal(payload, &at)
	return forward{Kind: forwardRemote, Listen: at.Path, ListenPort: socketPort}, err
}

// listen has the host listen. The master carries connections to a socket whose name
// is always the same for one address there: if we were killed, the forward still
// stands, and is ours again.
func (c *conn) listen(payload []byte, read func([]byte) (forward, error)) (bool, []byte, error) {
	f, err := read(payload)
	if err != nil {
		return false, nil, err
	}
	dir, err := privateDir()
	if err != nil {
		return false, nil, err
	}
	f.To = filepath.Join(dir, fmt.Sprintf("r-%.8x", sha256.Sum256(fmt.Append(nil, c.o.Path, f.Listen, f.ListenPort))))
	f.ToPort = socketPort
	l, err := listenAt(f)
	if err != nil {
		return false, nil, err
	}
	port, err := c.forward(f)
	if err != nil {
		_ = l.Close()
		return false, nil, err
	}
	if f.ListenPort == 0 {
		f.ListenPort = port
	}
	if !c.keep(f, l) {
		_ = l.Close()
		c.cancel(l.asked)
		return false, nil, net.ErrClosed
	}
	return true, ssh.Marshal(struct{ Port uint32 }{f.ListenPort}), nil
}

// keep serves a listener until it is closed, unless the connection is.
func (c *conn) keep(f forward, l *listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.listeners[f] = l
	c.wg.Go(func() { c.accept(f, l) })
	return true
}

// accept offers each connection to whoever handles incoming channels.
func (c *conn) accept(f forward, l *listener) {
	for {
		raw, err := l.AcceptUnix()
		if err != nil {
			return
		}
		c.o.Heard()
		select {
		case c.incoming <- &offer{forward: f, raw: raw}:
		case <-c.closing:
			_ = raw.Close()
		}
	}
}

// unlisten ends a listener on the host.
func (c *conn) unlisten(payload []byte, read func([]byte) (forward, error)) (bool, []byte, error) {
	f, err := read(payload)
	if err != nil {
		return false, nil, err
	}
	c.mu.Lock()
	var l *listener
	for have := range c.listeners {
		if have.Listen == f.Listen && have.ListenPort == f.ListenPort {
			f, l = have, c.listeners[have]
			delete(c.listeners, have)
		}
	}
	c.mu.Unlock()
	if l == nil {
		return false, nil, nil
	}
	_ = l.Close()
	c.cancel(l.asked)
	return true, nil, nil
}

// message is a forward as it travels.
type message struct {
	Kind, ID uint32
	Type     uint32
	Listen   string
	Port     uint32
	To       string
	ToPort   uint32
}

func (f forward) message(what uint32) message {
	return message{what, 0, f.Kind, f.Listen, f.ListenPort, f.To, f.ToPort}
}

// forward adds one to the master's list, and returns the port where that was left to
// the host.
func (c *conn) forward(f forward) (port uint32, err error) {
	want := uint32(sayOK)
	if f.ListenPort == 0 {
		want = sayPort
	}
	l, port, err := c.begin(want, ssh.Prohibited, func(l link) error { return l.write(f.message(askForward)) })
	if err == nil {
		c.drop(l)
	}
	return port, err
}

// cancel takes a forward off the list, also when we are about to leave. A master that
// has gone has none.
func (c *conn) cancel(f forward) {
	l, err := c.dial()
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	_ = l.hurry(func() error {
		if err := l.write(f.message(askUnforward)); err != nil {
			return err
		}
		_, _, err := l.answer(ssh.Prohibited)
		return err
	})
}

// openSocket connects to a socket on the host: by a forward that is taken away as soon
// as it has carried this connection.
func (c *conn) openSocket(path string) (ssh.Channel, <-chan *ssh.Request, error) {
	dir, err := privateDir()
	if err != nil {
		return nil, nil, err
	}
	own, err := os.MkdirTemp(dir, "l-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(own) }()
	f := forward{Kind: forwardLocal, Listen: filepath.Join(own, "s"), ListenPort: socketPort, To: path, ToPort: socketPort}
	if _, err := c.forward(f); err != nil {
		return nil, nil, err
	}
	defer c.cancel(f)
	raw, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: f.Listen, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	s := newSocketStream(raw)
	return s, s.requests, nil
}

// offer is a connection from the host that nobody has taken yet.
type offer struct {
	forward
	raw *net.UnixConn
}

// ChannelType implements ssh.NewChannel.
func (o *offer) ChannelType() string {
	if o.ListenPort == socketPort {
		return "forwarded-streamlocal@openssh.com"
	}
	return "forwarded-tcpip"
}

// ExtraData implements ssh.NewChannel. A master does not say who connected.
func (o *offer) ExtraData() []byte {
	if o.ListenPort == socketPort {
		return ssh.Marshal(struct{ Path, Reserved string }{Path: o.Listen})
	}
	return ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{o.Listen, o.ListenPort, "127.0.0.1", 1})
}

// Accept implements ssh.NewChannel.
func (o *offer) Accept() (ssh.Channel, <-chan *ssh.Request, error) {
	s := newSocketStream(o.raw)
	return s, s.requests, nil
}

// Reject implements ssh.NewChannel.
func (o *offer) Reject(ssh.RejectionReason, string) error { return o.raw.Close() }

// listenAt listens on a socket, in place of one that a killed process left.
func listenAt(f forward) (*listener, error) {
	if err := os.Remove(f.To); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.To, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{UnixListener: l, asked: f}, nil
}

// privateDir is a folder with a short name that is nobody else's: sockets' paths are
// bounded, and the one for a forward must be found again by the next process.
func privateDir() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("tunctl-mux-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("other users can use the folder %q", dir)
	}
	return dir, nil
}
