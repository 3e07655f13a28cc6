package tunnel

import "sync"

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
