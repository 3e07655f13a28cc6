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

// forward is an entry of a master's list, which it identifies by all of these fields.
type forward struct {
	Kind       uint32
	Listen     string
	ListenPort uint32
	To         string
	ToPort     uint32
}

// listener accepts what a master forwards from the host to a socket of ours.
type listener struct {
	*net.UnixListener
	requested forward // as in the master's list
}

// tcpForward and socketForward parse the requests of RFC 4254, section 7.1, and of
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

// listen makes the host listen. The master forwards connections to a socket whose name
// depends only on the address there. So, after we were killed, a new process gets the
// forward that is still open.
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
	if !c.addListener(f, l) {
		_ = l.Close()
		c.cancel(l.requested)
		return false, nil, net.ErrClosed
	}
	return true, ssh.Marshal(struct{ Port uint32 }{f.ListenPort}), nil
}

// addListener serves a listener until it is closed. It reports false if the connection
// has ended.
func (c *conn) addListener(f forward, l *listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.listeners[f] = l
	c.wg.Go(func() { c.accept(f, l) })
	return true
}

// accept passes each connection on as an incoming channel.
func (c *conn) accept(f forward, l *listener) {
	for {
		raw, err := l.AcceptUnix()
		if err != nil {
			return
		}
		c.o.Received()
		select {
		case c.incoming <- &incomingChannel{forward: f, raw: raw}:
		case <-c.closing:
			_ = raw.Close()
		}
	}
}

// unlisten closes a listener on the host.
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
	c.cancel(l.requested)
	return true, nil, nil
}

// forwardMessage is a forward on the wire.
type forwardMessage struct {
	Kind, ID uint32
	Type     uint32
	Listen   string
	Port     uint32
	To       string
	ToPort   uint32
}

func (f forward) message(what uint32) forwardMessage {
	return forwardMessage{what, 0, f.Kind, f.Listen, f.ListenPort, f.To, f.ToPort}
}

// forward adds a forward to the master's list, and returns the port if the host chose
// it.
func (c *conn) forward(f forward) (port uint32, err error) {
	want := uint32(serverOK)
	if f.ListenPort == 0 {
		want = serverRemotePort
	}
	l, port, err := c.request(want, ssh.Prohibited, func(l link) error { return l.write(f.message(clientOpenForward)) })
	if err == nil {
		c.closeLink(l)
	}
	return port, err
}

// cancel removes a forward from the list, also while the connection closes. If the
// master has ended, there is no list.
func (c *conn) cancel(f forward) {
	l, err := c.dial()
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	_ = l.withTimeout(func() error {
		if err := l.write(f.message(clientCloseForward)); err != nil {
			return err
		}
		_, _, err := l.answer(ssh.Prohibited)
		return err
	})
}

// openSocket connects to a socket on the host, by a forward that is removed once this
// connection is open.
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

// incomingChannel is a connection from the host that is not yet accepted.
type incomingChannel struct {
	forward
	raw *net.UnixConn
}

// ChannelType implements ssh.NewChannel.
func (c *incomingChannel) ChannelType() string {
	if c.ListenPort == socketPort {
		return "forwarded-streamlocal@openssh.com"
	}
	return "forwarded-tcpip"
}

// ExtraData implements ssh.NewChannel. A master does not report who connected.
func (c *incomingChannel) ExtraData() []byte {
	if c.ListenPort == socketPort {
		return ssh.Marshal(struct{ Path, Reserved string }{Path: c.Listen})
	}
	return ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{c.Listen, c.ListenPort, "127.0.0.1", 1})
}

// Accept implements ssh.NewChannel.
func (c *incomingChannel) Accept() (ssh.Channel, <-chan *ssh.Request, error) {
	s := newSocketStream(c.raw)
	return s, s.requests, nil
}

// Reject implements ssh.NewChannel.
func (c *incomingChannel) Reject(ssh.RejectionReason, string) error { return c.raw.Close() }

// listenAt listens on a socket, and replaces one that a killed process left.
func listenAt(f forward) (*listener, error) {
	if err := os.Remove(f.To); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.To, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{UnixListener: l, requested: f}, nil
}

// privateDir is a folder with a short name that only this user can access. The length of
// a socket's path is bounded, and the next process must find the socket of a forward
// again.
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
