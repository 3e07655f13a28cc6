package tunnel

import (
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// RelayTraffic is that of a relay's channels, which go over one stream after another. They
// are paced and watched as those of the host are, for the connection of the stream that
// carries them now. The loss of that connection does not end them.
type RelayTraffic struct {
	mu       sync.Mutex
	stream   *Stream
	channels map[*traffic]bool
}

// NewRelayTraffic is the traffic of a relay that goes over a stream.
func NewRelayTraffic(s *Stream) *RelayTraffic {
	return &RelayTraffic{stream: s, channels: map[*traffic]bool{}}
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

// OpenConn has open connect through the relay, for a client; release is called once at the
// end of the connection.
func (r *RelayTraffic) OpenConn(open func() (net.Conn, error), release func()) (c net.Conn, err error) {
	t, err := r.open(func() (err error) {
		c, err = open()
		return err
	}, release)
	if err != nil {
		return nil, err
	}
	return &trafficConn{c, t}, nil
}

// OpenChannel is OpenConn for a channel.
func (r *RelayTraffic) OpenChannel(open func() (ssh.Channel, <-chan *ssh.Request, error), release func()) (ch ssh.Channel, requests <-chan *ssh.Request, err error) {
	t, err := r.open(func() (err error) {
		ch, requests, err = open()
		return err
	}, release)
	if err != nil {
		return nil, nil, err
	}
	return &clientChannel{ch, t}, requests, nil
}

func (r *RelayTraffic) open(open func() error, release func()) (*traffic, error) {
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
func (r *RelayTraffic) end(t *traffic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.channels, t)
	t.share.Load().wait.ended()
}
