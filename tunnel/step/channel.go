package step

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// channel is a program or a connection inside the job.
type channel struct {
	conn     *Conn
	number   uint32
	session  bool
	requests chan *ssh.Request // at most the exit
	answers  chan *refusal     // to openRequest; nil accepts it
	gone     chan struct{}     // closed with the channel

	// Guarded by conn.mu.
	changed        *sync.Cond // anything below
	start          openRequest
	opening        bool // openRequest was sent
	open           bool // and accepted
	stdout, stderr bytes.Buffer
	accept         int // bytes that the relay may send
	consumed       int // bytes that it may send again, but does not know of
	window         int // bytes that we may send
	gotEOF         bool
	sentEOF        bool
	exited         bool
	removed        bool  // one side closed it
	err            error // why; io.EOF: that was regular. It does not change any more
}

var errOnce = errors.New("a session runs one program")

var errReset = errors.New("the connection inside the job was reset")

// OpenChannel opens a channel as an SSH server inside the job would (RFC 4254): "session",
// "direct-tcpip" or "direct-streamlocal@openssh.com". Refusals are *ssh.OpenChannelError.
func (c *Conn) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	request, err := parseOpen(kind, payload)
	if err != nil {
		return nil, nil, err
	}
	ch, err := c.open(ctx, kind == kindSession, request, nil)
	if err != nil {
		return nil, nil, err
	}
	return ch, ch.requests, nil
}

const kindSession = "session"

// parseOpen reads what a client of SSH sends with a channel; for a session, nothing.
func parseOpen(kind string, payload []byte) (openRequest, error) {
	switch kind {
	case kindSession:
		return openRequest{}, nil
	case "direct-tcpip": // RFC 4254, section 7.2
		var to struct {
			Host       string
			Port       uint32
			Origin     string
			OriginPort uint32
		}
		if err := ssh.Unmarshal(payload, &to); err != nil || to.Port > 65535 {
			return openRequest{}, &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "the address is not valid"}
		}
		return openRequest{Kind: "tcp", Host: to.Host, Port: to.Port}, nil
	case "direct-streamlocal@openssh.com":
		var to struct {
			Path     string
			Reserved string
			Unused   uint32
		}
		if err := ssh.Unmarshal(payload, &to); err != nil {
			return openRequest{}, &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "the path is not valid"}
		}
		return openRequest{Kind: "unix", Path: []byte(to.Path)}, nil
	}
	return openRequest{}, &ssh.OpenChannelError{Reason: ssh.UnknownChannelType, Message: "channels of this type cannot be opened inside a job"}
}

// open opens a channel, and writes first to it. The relay learns of a session only when it has
// something to run.
func (c *Conn) open(ctx context.Context, session bool, request openRequest, first []byte) (*channel, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ch, err := c.add(session)
	if err != nil || session {
		return ch, err
	}
	if err := ch.request(ctx, request, first); err != nil {
		_ = ch.Close()
		if r, ok := errors.AsType[*refusal](err); ok {
			err = &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: r.Error()}
		}
		return nil, err
	}
	return ch, nil
}

// Dial connects to an address as the node sees it, and writes first to it without another
// round trip; network is "tcp" or "unix". The connection has CloseWrite and no deadlines.
// Errors wrap api.ErrRefused if nothing listens there.
func (c *Conn) Dial(ctx context.Context, network, address string, first []byte) (net.Conn, error) {
	return c.dial(ctx, network, address, first, nil)
}

// dial connects to an address, perhaps as a page to its kernel.
func (c *Conn) dial(ctx context.Context, network, address string, first []byte, k *Kernel) (*netConn, error) {
	var request openRequest
	switch network {
	case "unix":
		request = openRequest{Kind: "unix", Path: []byte(address)}
	case "tcp":
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q: not a port", address)
		}
		request = openRequest{Kind: "tcp", Host: host, Port: uint32(n)}
	default:
		return nil, net.UnknownNetworkError(network)
	}
	request.Kernel = k
	ch, err := c.open(ctx, false, request, first)
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fmt.Errorf("%w to %s: %s", api.ErrRefused, address, refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return &netConn{ch, &net.UnixAddr{Net: network, Name: address}}, nil
}

// netConn is a channel as a net.Conn.
type netConn struct {
	*channel
	remote *net.UnixAddr // of any network: a name is all that is known of it
}

// LocalAddr is not known.
func (c *netConn) LocalAddr() net.Addr { return &net.UnixAddr{Net: c.remote.Net} }

// RemoteAddr is the address as it was dialed.
func (c *netConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is not supported, nor are the other two.
func (c *netConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *netConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *netConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// add registers a new channel, unless the connection has ended.
func (c *Conn) add(session bool) (*channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.closing {
		return nil, c.downLocked()
	}
	c.last++
	ch := &channel{
		conn: c, number: c.last, session: session, accept: windowSize, changed: sync.NewCond(&c.mu),
		requests: make(chan *ssh.Request, 1), answers: make(chan *refusal, 1), gone: make(chan struct{}),
	}
	c.channels[ch.number] = ch
	return ch, nil
}

// Error is the relay's own words.
func (r *refusal) Error() string { return api.NewRemoteText(r.Message).String() }

// request sends openRequest, what is written first, and waits for the answer.
func (ch *channel) request(ctx context.Context, request openRequest, first []byte) error {
	payload, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if len(payload) > frameLimit {
		return fmt.Errorf("a command of %d bytes is too long", len(payload))
	}
	ch.conn.mu.Lock()
	if ch.opening || ch.open || ch.removed {
		ch.conn.mu.Unlock()
		return errOnce
	}
	ch.opening = true
	ch.conn.sendLocked(ch.number, kindOpen, payload)
	for data := range slices.Chunk(first, dataSize) {
		ch.conn.sendLocked(ch.number, kindData, data)
	}
	ch.window = -len(first)
	ch.conn.mu.Unlock()
	select {
	case refused := <-ch.answers:
		if refused != nil {
			return refused
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-ch.gone:
		return ch.err
	}
}

// handleLocked handles a frame from the relay.
func (ch *channel) handleLocked(f frame) error {
	defer ch.changed.Broadcast()
	if waiting := f.kind == kindOpened || f.kind == kindRefused; waiting != ch.opening || !waiting && !ch.open {
		return fmt.Errorf("%w: kind %d for a channel that is not open", errBroken, f.kind)
	}
	switch f.kind {
	case kindOpened:
		ch.opening, ch.open, ch.window = false, true, ch.window+windowSize
		if ch.sentEOF {
			ch.conn.sendLocked(ch.number, kindEOF, nil)
		}
		ch.answers <- nil
	case kindRefused:
		ch.opening = false
		refused := &refusal{}
		if json.Unmarshal(f.payload, refused) != nil {
			return errBroken
		}
		ch.answers <- refused
	case kindData, kindStderr:
		return ch.receiveLocked(f)
	case kindEOF:
		ch.gotEOF = true
	case kindWindow:
		if len(f.payload) != 4 {
			return fmt.Errorf("%w: a window of %d bytes", errBroken, len(f.payload))
		}
		if ch.window += int(binary.BigEndian.Uint32(f.payload)); ch.window > windowSize {
			return fmt.Errorf("%w: a window is too large", errBroken)
		}
	case kindExit:
		return ch.exitLocked(f.payload)
	case kindClose:
		if !ch.session && !ch.gotEOF {
			ch.err = errReset
		}
		ch.removeLocked()
	default:
		return fmt.Errorf("%w: kind %d", errBroken, f.kind)
	}
	return nil
}

func (ch *channel) receiveLocked(f frame) error {
	if ch.accept -= len(f.payload); ch.accept < 0 || ch.gotEOF || !ch.open {
		return fmt.Errorf("%w: more data than a channel may carry", errBroken)
	}
	if f.kind == kindStderr {
		ch.stderr.Write(f.payload)
	} else {
		ch.stdout.Write(f.payload)
	}
	return nil
}

// exitLocked passes an exit on as sshd does (RFC 4254, section 6.10).
func (ch *channel) exitLocked(payload []byte) error {
	var e exit
	if json.Unmarshal(payload, &e) != nil || ch.exited || !ch.session {
		return errBroken
	}
	ch.exited = true
	r := &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(struct{ Status uint32 }{e.Status})}
	if e.Signal != "" {
		r = &ssh.Request{Type: "exit-signal", Payload: ssh.Marshal(struct {
			Signal   string
			Core     bool
			Message  string
			Language string
		}{api.Sanitize(e.Signal), e.Core, "", ""})}
	}
	ch.requests <- r
	return nil
}

// removeLocked ends the channel for this side. What was received can still be read.
func (ch *channel) removeLocked() {
	if ch.removed {
		return
	}
	ch.removed, ch.err = true, cmp.Or(ch.err, io.EOF)
	delete(ch.conn.channels, ch.number)
	close(ch.gone)
	close(ch.requests)
	ch.changed.Broadcast()
	ch.conn.stream.changed.Broadcast()
}

// Read reads standard output, or what the connection's other side sent.
func (ch *channel) Read(p []byte) (int, error) { return ch.read(&ch.stdout, p) }

func (ch *channel) read(from *bytes.Buffer, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	for from.Len() == 0 {
		switch {
		case ch.gotEOF:
			return 0, io.EOF
		case ch.removed:
			return 0, ch.err
		}
		ch.changed.Wait()
	}
	n, err := from.Read(p)
	if from.Len() == 0 && from.Cap() > dataSize {
		*from = bytes.Buffer{}
	}
	if ch.consumed += n; ch.consumed >= windowSize/8 && !ch.removed {
		ch.accept += ch.consumed
		ch.conn.sendLocked(ch.number, kindWindow, binary.BigEndian.AppendUint32(nil, uint32(ch.consumed)))
		ch.consumed = 0
	}
	return n, err
}

// Write writes to standard input, or to the connection. In a session it waits until there
// is a program.
func (ch *channel) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := ch.writeSome(p[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (ch *channel) writeSome(p []byte) (int, error) {
	c := ch.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case ch.removed:
			return 0, ch.err
		case ch.sentEOF:
			return 0, io.EOF
		case ch.window <= 0:
			ch.changed.Wait()
		case c.stream.fullLocked():
			c.stream.changed.Wait()
		default:
			n := min(len(p), ch.window, dataSize)
			ch.window -= n
			c.sendLocked(ch.number, kindData, p[:n])
			return n, nil
		}
	}
}

// CloseWrite ends standard input, or half-closes the connection.
func (ch *channel) CloseWrite() error {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	if ch.removed || ch.sentEOF {
		return io.EOF
	}
	ch.sentEOF = true
	if ch.open {
		ch.conn.sendLocked(ch.number, kindEOF, nil)
	}
	ch.changed.Broadcast()
	ch.conn.stream.changed.Broadcast()
	return nil
}

// Close closes the channel; a program that still runs gets a hangup.
func (ch *channel) Close() error {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	if ch.removed {
		return nil
	}
	if ch.open || ch.opening {
		ch.conn.sendLocked(ch.number, kindClose, nil)
	}
	ch.stdout, ch.stderr = bytes.Buffer{}, bytes.Buffer{}
	ch.removeLocked()
	return nil
}

// Stderr is standard error, which can only be read.
func (ch *channel) Stderr() io.ReadWriter { return stderr{ch} }

type stderr struct{ ch *channel }

func (s stderr) Read(p []byte) (int, error) { return s.ch.read(&s.ch.stderr, p) }
func (s stderr) Write([]byte) (int, error)  { return 0, errors.ErrUnsupported }
