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

// Options say which master to ride.
type Options struct {
	Path  string // its control socket
	Heard func() // called at each sign of life from beyond it; nil: nobody asks
}

// conn is a master's connection, lent to us. It implements [ssh.Conn]: sessions,
// streams to addresses and sockets, listeners on the host. What concerns the
// connection as a whole, keepalives above all, is its owner's business.
type conn struct {
	o    Options
	held link // open as long as we ride: it ends with the master, and keeps it from an idle end
	pid  int  // of the master

	incoming chan ssh.NewChannel
	requests chan *ssh.Request
	closing  chan struct{} // closed when the end begins
	done     chan struct{} // closed when all is gone

	mu        sync.Mutex
	closed    bool
	links     map[link]bool
	listeners map[forward]*listener
	wg        sync.WaitGroup
}

// Attach makes a connection of raw, which leads to the control socket and is owned
// from now on. The channels are those of [ssh.NewClientConn].
func Attach(raw net.Conn, o Options) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	if o.Heard == nil {
		o.Heard = func() {}
	}
	c := &conn{
		o: o, held: link{raw}, links: map[link]bool{}, listeners: map[forward]*listener{},
		incoming: make(chan ssh.NewChannel), requests: make(chan *ssh.Request), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := c.held.hurry(c.check); err != nil {
		_ = raw.Close()
		return nil, nil, nil, err
	}
	go c.hold()
	return c, c.incoming, c.requests, nil
}

// check asks whether there is a master behind the socket.
func (c *conn) check() error {
	if err := c.held.greet(); err != nil {
		return err
	}
	if err := c.held.write(struct{ Kind, ID uint32 }{askAlive, 0}); err != nil {
		return err
	}
	kind, pid, err := c.held.answer(ssh.ConnectionFailed)
	if err == nil && kind != sayAlive {
		err = unexpected(kind)
	}
	c.pid = int(pid)
	return err
}

// hold waits for the master's end, or ours, and for all that runs beside.
func (c *conn) hold() {
	_, _ = io.Copy(io.Discard, c.held)
	_ = c.Close()
	c.wg.Wait()
	close(c.incoming)
	close(c.requests)
	close(c.done)
}

// dial opens a connection to the control socket for one request. A master that was
// told to take no more (ssh -O stop) has ended for us, though what it carries goes on.
func (c *conn) dial() (link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "unix", c.o.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		_ = c.held.Close()
	}
	if err != nil {
		return link{}, err
	}
	l := link{raw}
	if err := l.hurry(l.greet); err != nil {
		_ = l.Close()
		return link{}, err
	}
	return l, nil
}

// begin makes a request that the server answers, and that a person may have to allow
// first (ControlMaster ask): only the end of the connection, or of the link that send
// is given, ends the wait.
func (c *conn) begin(want uint32, reason ssh.RejectionReason, send func(link) error) (link, uint32, error) {
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
		c.o.Heard()
	}
	if err == nil && kind != want {
		err = unexpected(kind)
	}
	if err != nil {
		c.drop(l)
	}
	return l, number, err
}

// track has a link end with the connection, unless that has ended.
func (c *conn) track(l link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.links[l] = true
	}
	return !c.closed
}

// drop ends a request.
func (c *conn) drop(l link) {
	_ = l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
}

func unexpected(kind uint32) error { return fmt.Errorf("the ssh master replied %#x", kind) }

// spawn runs f beside the connection, unless that has ended.
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

// SendRequest implements ssh.Conn: listeners on the host, and nothing else.
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

// Close implements ssh.Conn: it lets the master go, which stays.
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
		c.cancel(l.asked)
	}
	return c.held.Close()
}

// Wait implements ssh.Conn.
func (c *conn) Wait() error {
	<-c.done
	return io.EOF
}

// The rest of ssh.Conn: a master tells none of it.

func (c *conn) User() string          { return "" }
func (c *conn) SessionID() []byte     { return nil }
func (c *conn) ClientVersion() []byte { return nil }
func (c *conn) ServerVersion() []byte { return nil }
func (c *conn) RemoteAddr() net.Addr  { return c.held.RemoteAddr() }
func (c *conn) LocalAddr() net.Addr   { return c.held.LocalAddr() }
