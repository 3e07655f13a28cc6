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
	"sync/atomic"
	"syscall"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/peer"
)

// ErrForeign is the error of a control socket at which another user's program listens.
var ErrForeign = errors.New("another user's program listens at the control socket")

// Dial connects to a master's control socket, if the master is this user's.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if !peer.SameUser(raw) {
		_ = raw.Close()
		return nil, ErrForeign
	}
	return raw, nil
}

// Conn is a master that listens on its host.
type Conn struct {
	path    string // of the control socket, in a folder of its own
	control link   // ends with the master

	incoming chan ssh.NewChannel
	closing  chan struct{} // closed when closing begins
	done     chan struct{} // closed when everything has ended
	number   atomic.Int32  // of the last listener's socket

	mu        sync.Mutex
	closed    bool
	links     map[link]bool
	listeners map[forward]*listener
	wg        sync.WaitGroup
}

// Attach connects to the master at path.
func Attach(ctx context.Context, path string) (*Conn, error) {
	raw, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		path: path, control: link{raw}, links: map[link]bool{}, listeners: map[forward]*listener{},
		incoming: make(chan ssh.NewChannel), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if err := c.control.withTimeout(c.control.hello); err != nil {
		_ = raw.Close()
		return nil, err
	}
	go c.serve()
	return c, nil
}

// Channels are the connections to the listeners, until everything has ended.
func (c *Conn) Channels() <-chan ssh.NewChannel { return c.incoming }

// serve waits for the end of the master or of the connection, and for all goroutines.
func (c *Conn) serve() {
	_, _ = io.Copy(io.Discard, c.control)
	_ = c.Close()
	c.wg.Wait()
	close(c.incoming)
	close(c.done)
}

// dial opens a connection to the control socket for one request. A master that accepts
// no more (ssh -O stop) has ended for us, though what it carries continues.
func (c *Conn) dial() (link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), replyTimeout)
	defer cancel()
	raw, err := Dial(ctx, c.path)
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

// alive reports whether the master responds.
func (c *Conn) alive() bool {
	l, err := c.dial()
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// request makes a request that the server answers. Only the end of the connection, or of
// the link that send gets, ends the wait.
func (c *Conn) request(want uint32, send func(link) error) (number uint32, err error) {
	l, err := c.dial()
	if err != nil {
		return 0, err
	}
	if !c.track(l) {
		_ = l.Close()
		return 0, net.ErrClosed
	}
	defer c.closeLink(l)
	if err := send(l); err != nil {
		return 0, err
	}
	kind, number, err := l.answer()
	if err == nil && kind != want {
		err = fmt.Errorf("the ssh master replied %#x", kind)
	}
	return number, err
}

// track makes a link end with the connection. It reports false if that has ended.
func (c *Conn) track(l link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.links[l] = true
	}
	return !c.closed
}

// closeLink ends a request.
func (c *Conn) closeLink(l link) {
	_ = l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.links, l)
}

// SendRequest is that of an [ssh.Conn], only for listeners on the host.
func (c *Conn) SendRequest(name string, _ bool, payload []byte) (bool, []byte, error) {
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

// Close ends the listeners. The master continues.
func (c *Conn) Close() error {
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

// Wait returns when everything has ended.
func (c *Conn) Wait() { <-c.done }
