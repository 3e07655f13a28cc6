//go:build unix

package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// Options describe a master.
type Options struct {
	Path     string // its control socket
	Received func() // called when anything arrives from the host; may be nil
}

// conn is the connection of a master that is not ours. It implements [ssh.Conn]:
// sessions, streams to addresses and sockets, and listeners on the host. Keepalives and
// everything else about the connection as a whole are the master's.
type conn struct {
	o       Options
	control link // ends with the master, and while it is open ControlPersist does not end that
	pid     int  // of the master

	incoming chan ssh.NewChannel
	requests chan *ssh.Request
	closing  chan struct{} // closed when closing begins
	done     chan struct{} // closed when everything has ended

	mu        sync.Mutex
	closed    bool
	links     map[link]bool
	listeners map[forward]*listener
	wg        sync.WaitGroup
}

// Attach makes a connection of raw, a connection to the control socket that it owns from
// now on. The channels are those of [ssh.NewClientConn].
func Attach(raw net.Conn, o Options) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	if o.Received == nil {
		o.Received = func() {}
	}
	c := &conn{
		o: o, control: link{raw}, links: map[link]bool{}, listeners: map[forward]*listener{},
		incoming: make(chan ssh.NewChannel), requests: make(chan *ssh.Request), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := c.control.withTimeout(c.checkAlive); err != nil {
		_ = raw.Close()
		return nil, nil, nil, err
	}
	go c.serve()
	return c, c.incoming, c.requests, nil
}

// checkAlive checks that a master listens at the socket.
func (c *conn) checkAlive() error {
	if err := c.control.hello(); err != nil {
		return err
	}
	if err := c.control.write(struct{ Kind, ID uint32 }{clientAliveCheck, 0}); err != nil {
		return err
	}
	kind, pid, err := c.control.answer(ssh.ConnectionFailed)
	if err == nil && kind != serverAlive {
		err = unexpected(kind)
	}
	c.pid = int(pid)
	return err
}

// serve waits for the end of the master or of the connection, and for all goroutines.
func (c *conn) serve() {
	_, _ = io.Copy(io.Discard, c.control)
	_ = c.Close()
	c.wg.Wait()
	close(c.incoming)
	close(c.requests)
	close(c.done)
}

// dial opens a connection to the control socket for one request. A master that accepts
// no more (ssh -O stop) has ended for us, though what it carries continues.
func (c *conn) dial() (link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), replyTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "unix", c.o.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		_ = c.control.Close()
	}
	if err != nil {
		return link{}, err
	}
	l := link{raw}
	if err := l.withTimeout(l.hello); err != nil {
		_ = l.Close()
		return link{}, err
	}
	return l, nil
}

// request makes a request that the server answers, and that a person may have to allow
// first (ControlMaster ask). Only the end of the connection, or of the link that send
// gets, ends the wait.
func (c *conn) request(want uint32, reason ssh.RejectionReason, send func(link) error) (link, uint32, error) {
	l, err := c.dial()
	if err != nil {
		return link{}, 0, err
	}
	if !c.track(l) {
		_ = l.Close()
		return link{}, 0, net.ErrClosed
	}
	err = send(l)
	var kind, number uint32
	if err == nil {
		kind, number, err = l.answer(reason)
	}
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); err == nil || refused {
		c.o.Received()
	}
	if err == nil && kind != want {
		err = unexpected(kind)
	}
	if err != nil {
		c.closeLink(l)
	}
	return l, number, err
}

// track makes a link end with the connection. It reports false if that has ended.
func (c *conn) track(l link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.links[l] = true
	}
	return !c.closed
}

// closeLink ends a request.
func (c *conn) closeLink(l link) {
	_ = l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
}

func unexpected(kind uint32) error { return fmt.Errorf("the ssh master replied %#x", kind) }

// spawn runs f in a goroutine that serve waits for. It reports false if the connection
// has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
	return !c.closed
}

// OpenChannel implements ssh.Conn.
func (c *conn) OpenChannel(kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	switch kind {
	case "session":
		s := newSession(c)
		return s, s.requests, nil
	case "direct-tcpip":
		var to struct {
			Host       string
			Port       uint32
			Origin     string
			OriginPort uint32
		}
		if err := ssh.Unmarshal(payload, &to); err != nil {
			return nil, nil, err
		}
		return c.openStream(to.Host, to.Port)
	case "direct-streamlocal@openssh.com":
		var to struct {
			Path      string
			Reserved  string
			Reserved1 uint32
		}
		if err := ssh.Unmarshal(payload, &to); err != nil {
			return nil, nil, err
		}
		return c.openSocket(to.Path)
	}
	return nil, nil, &ssh.OpenChannelError{Reason: ssh.UnknownChannelType, Message: "a shared ssh connection has no " + kind}
}

// SendRequest implements ssh.Conn, only for listeners on the host.
func (c *conn) SendRequest(name string, _ bool, payload []byte) (bool, []byte, error) {
	switch name {
	case "tcpip-forward":
		return c.listen(payload, tcpForward)
	case "streamlocal-forward@openssh.com":
		return c.listen(payload, socketForward)
	case "cancel-tcpip-forward":
		return c.unlisten(payload, tcpForward)
	case "cancel-streamlocal-forward@openssh.com":
		return c.unlisten(payload, socketForward)
	}
	return false, nil, nil
}

// Close implements ssh.Conn. The master continues.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.closing)
	listeners := c.listeners
	c.listeners = nil
	for l := range c.links {
		_ = l.Close()
	}
	c.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
		c.cancel(l.requested)
	}
	return c.control.Close()
}

// Wait implements ssh.Conn.
func (c *conn) Wait() error {
	<-c.done
	return io.EOF
}

// The rest of ssh.Conn: a master reports none of it.

func (c *conn) User() string          { return "" }
func (c *conn) SessionID() []byte     { return nil }
func (c *conn) ClientVersion() []byte { return nil }
func (c *conn) ServerVersion() []byte { return nil }
func (c *conn) RemoteAddr() net.Addr  { return c.control.RemoteAddr() }
func (c *conn) LocalAddr() net.Addr   { return c.control.LocalAddr() }
