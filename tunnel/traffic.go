package tunnel

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/tunnel/pace"
)

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
		notify(w.all.began)
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
