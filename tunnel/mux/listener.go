//go:build unix

package mux

import (
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// The kind of our forwards, and the port number that stands for a socket's path.
const (
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

// listen makes the host listen. The master forwards connections to a socket beside its
// own, in a folder that only this user can access.
func (c *Conn) listen(payload []byte, read func([]byte) (forward, error)) (bool, []byte, error) {
	f, err := read(payload)
	if err != nil {
		return false, nil, err
	}
	f.To = filepath.Join(filepath.Dir(c.path), fmt.Sprintf("r%d", c.number.Add(1)))
	f.ToPort = socketPort
	raw, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.To, Net: "unix"})
	if err != nil {
		return false, nil, err
	}
	l := &listener{UnixListener: raw, requested: f}
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
func (c *Conn) addListener(f forward, l *listener) bool {
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
func (c *Conn) accept(f forward, l *listener) {
	for {
		raw, err := l.AcceptUnix()
		if err != nil {
			return
		}
		select {
		case c.incoming <- &incomingChannel{forward: f, raw: raw, alive: c.alive}:
		case <-c.closing:
			_ = raw.Close()
		}
	}
}

// unlisten closes a listener on the host.
func (c *Conn) unlisten(payload []byte, read func([]byte) (forward, error)) (bool, []byte, error) {
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
func (c *Conn) forward(f forward) (port uint32, err error) {
	want := uint32(serverOK)
	if f.ListenPort == 0 {
		want = serverRemotePort
	}
	return c.request(want, func(l link) error { return l.write(f.message(clientOpenForward)) })
}

// cancel removes a forward from the list, also while the connection closes. If the
// master has ended, there is no list.
func (c *Conn) cancel(f forward) {
	l, err := c.dial()
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	_ = l.withTimeout(func() error {
		if err := l.write(f.message(clientCloseForward)); err != nil {
			return err
		}
		_, _, err := l.answer()
		return err
	})
}

// incomingChannel is a connection from the host that is not yet accepted.
type incomingChannel struct {
	forward
	raw   *net.UnixConn
	alive func() bool // the master
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
	s := newSocketStream(c.raw, c.alive)
	return s, s.requests, nil
}

// Reject implements ssh.NewChannel.
func (c *incomingChannel) Reject(ssh.RejectionReason, string) error { return c.raw.Close() }
