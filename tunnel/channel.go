package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/tunnel/pace"
)

func (c *conn) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, t, err := openForClient(ctx, c, func() (net.Conn, error) {
		nc, err := c.client.Dial(network, address)
		return nc, dialError(address, err)
	}, closeLate[net.Conn])
	if err != nil {
		return nil, err
	}
	return &channelConn{trafficConn{nc, t}, c}, nil
}

// dialHop is dial for another SSH connection inside this one, which is not paced: the
// inner one paces its own channels.
func (c *conn) dialHop(ctx context.Context, network, address string) (*channelConn, error) {
	nc, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	through := nc.(*channelConn)
	share := through.share.Load()
	share.in, share.out = pace.Stream{}, pace.Stream{}
	return through, nil
}

// openForClient has f open a channel for a client, and returns it with its traffic; see [open].
func openForClient[T any](ctx context.Context, c *conn, f func() (T, error), late func(T)) (o T, t *Traffic, err error) {
	t = c.newTraffic()
	err = t.open(c, func() (err error) {
		o, err = open(ctx, c, f, late)
		return err
	})
	if err == nil {
		t.share.Load().wait.opened()
	}
	return o, t, err
}

// open calls f in a goroutine and returns early when ctx ends, or the connection is set
// aside: x/crypto's functions take no ctx. What f opens after that goes to late.
func open[T any](ctx context.Context, c *conn, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		opened T
		err    error
	}
	results, aside := make(chan result), c.whenAside()
	started := c.spawn(func() {
		opened, err := f()
		select {
		case results <- result{opened, err}:
			return
		case <-aside:
		case <-ctx.Done():
		}
		if err == nil {
			late(opened)
		}
	})
	var r result
	if !started {
		return r.opened, c.downError()
	}
	select {
	case r = <-results:
		r.err = c.orDown(r.err)
	case <-aside:
		r.err = errAside
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	return r.opened, r.err
}

func closeLate[T io.Closer](opened T) { _ = opened.Close() }

// channelConn is a connection through the host, from here or from there. When the link is lost, x/crypto ends
// channels with io.EOF, as if the other side had sent everything; here such a read fails
// with api.ErrDown.
type channelConn struct {
	trafficConn
	link *conn
}

// Read implements net.Conn.
func (c *channelConn) Read(p []byte) (int, error) {
	n, err := c.trafficConn.Read(p)
	if err == io.EOF && c.link.ended() { //nolint:errorlint // x/crypto's own end
		err = c.link.downError()
	}
	return n, err
}

// dialError classifies a failed dial by the reason codes of RFC 4254, section 5.1.
func dialError(address string, err error) error {
	open, ok := errors.AsType[*ssh.OpenChannelError](err)
	if !ok {
		return api.RemoteError(err)
	}
	said := api.NewRemoteText(noReason.Replace(open.Message))
	if kind, known := refusals[open.Reason]; known {
		return fmt.Errorf("%w to %s: %s", kind, address, said)
	}
	return fmt.Errorf("%s: the host refused (%s): %s", address, open.Reason, said)
}

var refusals = map[ssh.RejectionReason]error{ssh.Prohibited: api.ErrProhibited, ssh.ConnectionFailed: api.ErrRefused}

// noReason replaces what sshd says where it gives no reason.
var noReason = strings.NewReplacer("Connection failed", "it gives no reason", "open failed", "it gives no reason")

// listen makes the host listen at an address.
func (c *conn) listen(ctx context.Context, network, address string) (net.Listener, error) {
	return open(ctx, c, func() (net.Listener, error) {
		listen := c.client.Listen
		if c.master != nil {
			listen = c.master.Listen
		}
		l, err := listen(network, address)
		if err != nil {
			return nil, fmt.Errorf("listening at %s: %w", address, err)
		}
		return &channelListener{l, c}, nil
	}, closeLate[net.Listener])
}

// channelListener accepts connections from the host.
type channelListener struct {
	net.Listener
	link *conn
}

// Accept implements net.Listener.
func (l *channelListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &channelConn{trafficConn{nc, l.link.newTraffic()}, l.link}
	c.share.Load().wait.opened()
	return c, nil
}

// Close implements net.Listener. The library locks all its listeners until somebody has accepted
// what the host sends, of which few can be under way: they are accepted and closed.
func (l *channelListener) Close() error {
	go func() {
		for range 16 {
			if nc, err := l.Listener.Accept(); err == nil {
				_ = nc.Close()
			}
		}
	}()
	return l.Listener.Close()
}

// Spare is ctx for a session that the user wants only if the host has one free now.
func Spare(ctx context.Context) context.Context {
	return context.WithValue(ctx, spare{}, true)
}

type spare struct{}

func (c *conn) openChannel(ctx context.Context, kind string, payload []byte) (opened, error) {
	if kind != "session" {
		return c.openClientChannel(ctx, kind, payload, func() {})
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	if ctx.Value(spare{}) != nil {
		stop()
	}
	for {
		slot, err := c.slots.AcquireShared(waiting, c.done)
		if err != nil {
			return opened{}, c.orDown(err)
		}
		o, err := c.openClientChannel(ctx, kind, payload, sync.OnceFunc(func() { c.endSession(slot) }))
		if err == nil {
			slot.Accepted()
			return o, nil
		}
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused {
			slot.Release()
			return opened{}, err
		}
		if !slot.Refused() {
			return opened{}, err
		}
	}
}

// opened is a channel of a client with the host's requests in it.
type opened struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

// openClientChannel opens a channel; release is called once at its end.
func (c *conn) openClientChannel(ctx context.Context, kind string, payload []byte, release func()) (opened, error) {
	o, t, err := openForClient(ctx, c, func() (opened, error) {
		ch, requests, err := c.client.OpenChannel(kind, payload)
		return opened{ch, requests}, err
	}, func(o opened) {
		_ = o.Close()
		ssh.DiscardRequests(o.requests)
	})
	if err != nil {
		return opened{}, err
	}
	t.release = release
	return opened{&clientChannel{o.Channel, t}, o.requests}, nil
}

// clientWaits says how many channels of clients a connection has, and whether they wait
// for bytes. The commands of the agent itself do not count.
type clientWaits struct {
	open    atomic.Int64  // channels
	unused  func()        // called when the last channel has ended
	began   chan struct{} // receives when a client sends and nobody checks the connection
	waiting atomic.Int64  // channels whose last bytes went to the host
	lastAt  atomic.Int64  // when a client last sent, in Unix nanoseconds
	checked atomic.Bool   // the connection is being checked
}

// active reports whether a client waits, and has sent something within a time.
func (w *clientWaits) active(now time.Time, within time.Duration) bool {
	return w.waiting.Load() > 0 && w.sentWithin(now, within)
}

func (w *clientWaits) sentWithin(now time.Time, within time.Duration) bool {
	return now.Sub(time.Unix(0, w.lastAt.Load())) < within
}

// channelWait is one channel's part of clientWaits.
type channelWait struct {
	all     *clientWaits
	counted atomic.Bool
	waiting atomic.Bool
}

// opened counts the channel until it has ended.
func (w *channelWait) opened() {
	w.counted.Store(true)
	w.all.open.Add(1)
}

// ended is called at the end of the channel, maybe more than once.
func (w *channelWait) ended() {
	w.answered()
	if w.counted.Swap(false) && w.all.open.Add(-1) == 0 {
		w.all.unused()
	}
}

// sent is called for bytes that a client sends.
func (w *channelWait) sent() {
	w.all.lastAt.Store(time.Now().UnixNano())
	if !w.waiting.Swap(true) {
		w.all.waiting.Add(1)
	}
	if w.all.checked.CompareAndSwap(false, true) {
		latest.Signal(w.all.began)
	}
}

// answered is called for bytes that came for the client.
func (w *channelWait) answered() {
	if w.waiting.Load() && w.waiting.Swap(false) {
		w.all.waiting.Add(-1)
	}
}

// Traffic is what passes through a client's channel.
type Traffic struct {
	share   atomic.Pointer[share] // another after move
	release func()                // called once at the end of the channel
}

// share is what a channel's traffic is to the connection that carries it.
type share struct {
	wait    channelWait
	in, out pace.Stream
}

func (c *conn) newTraffic() *Traffic {
	t := &Traffic{release: func() {}}
	t.share.Store(c.newShare())
	return t
}

func (c *conn) newShare() *share {
	in, out := c.meter.Streams()
	return &share{wait: channelWait{all: &c.clients}, in: in, out: out}
}

// open has open open the channel over a connection.
func (t *Traffic) open(c *conn, open func() error) error {
	s, start := t.share.Load(), time.Now()
	s.wait.sent()
	err := open()
	s.wait.answered()
	if err == nil {
		c.meter.NoteRoundTrip(time.Since(start))
	}
	return err
}

// move has an open channel count for another connection.
func (t *Traffic) move(to *conn) {
	next := to.newShare()
	next.wait.opened()
	t.share.Swap(next).wait.ended()
}

func (t *Traffic) read(r io.Reader, p []byte) (int, error) {
	n, err := r.Read(p[:t.share.Load().in.Wait(len(p))])
	s := t.share.Load()
	s.wait.answered()
	s.in.Add(n)
	return n, err
}

func (t *Traffic) write(w io.Writer, p []byte) (int, error) {
	s := t.share.Load()
	s.wait.sent()
	n, err := s.out.Write(w, p)
	if err != nil {
		s.wait.answered() // nothing will come
	}
	return n, err
}

// Conn is a connection with this traffic.
func (t *Traffic) Conn(c net.Conn) net.Conn { return &trafficConn{c, t} }

// Channel is a channel with this traffic.
func (t *Traffic) Channel(ch ssh.Channel) ssh.Channel { return &clientChannel{ch, t} }

func (t *Traffic) end() {
	t.share.Load().wait.ended()
	t.release()
}

// trafficConn is a connection of a client.
type trafficConn struct {
	net.Conn
	*Traffic
}

// Read implements net.Conn.
func (c *trafficConn) Read(p []byte) (int, error) { return c.read(c.Conn, p) }

// Write implements net.Conn.
func (c *trafficConn) Write(p []byte) (int, error) { return c.write(c.Conn, p) }

// Close implements net.Conn.
func (c *trafficConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// CloseWrite half-closes the connection.
func (c *trafficConn) CloseWrite() error {
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

// clientChannel is a channel of the user's shell or copy.
type clientChannel struct {
	ssh.Channel
	*Traffic
}

// Read reads what the program on the host prints.
func (c *clientChannel) Read(p []byte) (int, error) { return c.read(c.Channel, p) }

// Write sends what the user types, or a copy.
func (c *clientChannel) Write(p []byte) (int, error) { return c.write(c.Channel, p) }

// Close implements ssh.Channel.
func (c *clientChannel) Close() error {
	defer c.end()
	return c.Channel.Close()
}

// RelayTraffic is that of a relay's channels, which go over one stream after another. They
// are paced and watched as those of the host are, for the connection of the stream that
// carries them now. The loss of that connection does not end them.
type RelayTraffic struct {
	mu       sync.Mutex
	stream   *Stream
	channels map[*Traffic]bool
}

// NewRelayTraffic is the traffic of a relay that goes over a stream.
func NewRelayTraffic(s *Stream) *RelayTraffic {
	return &RelayTraffic{stream: s, channels: map[*Traffic]bool{}}
}

// Stream is the one that carries the channels now.
func (r *RelayTraffic) Stream() *Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream
}

// Move is called when another stream carries the channels.
func (r *RelayTraffic) Move(to *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream = to
	for t := range r.channels {
		t.move(to.conn)
	}
}

// Open has open open a connection or a channel through the relay, for a client, and returns its
// traffic; release is called once at its end.
func (r *RelayTraffic) Open(open func() error, release func()) (*Traffic, error) {
	r.mu.Lock()
	on := r.stream.conn
	t := on.newTraffic()
	t.share.Load().wait.opened()
	r.channels[t] = true
	r.mu.Unlock()
	err := t.open(on, open)
	if err != nil {
		r.end(t)
		return nil, err
	}
	t.release = func() {
		r.end(t)
		release()
	}
	return t, nil
}

// end is called at the end of a channel, maybe more than once.
func (r *RelayTraffic) end(t *Traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.channels, t)
	t.share.Load().wait.ended()
}
