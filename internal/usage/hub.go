package usage

import (
	"sync"

	"tunctl/internal/api"
)

// Hub knows who looks at what jobs use, and gives them each sample.
type Hub struct {
	mu      sync.Mutex
	streams map[chan api.Usage]string // the session that each client looks at; "": all
	changed chan struct{}             // closed when one comes or goes
}

// hubBuffer is how many samples may wait for a slow client.
const hubBuffer = 64

// NewHub returns a hub that nobody looks at yet.
func NewHub() *Hub {
	return &Hub{streams: map[chan api.Usage]string{}, changed: make(chan struct{})}
}

// Subscribe returns the samples of a session from now on, of all sessions for "". Until
// Unsubscribe, somebody looks.
func (h *Hub) Subscribe(session string) chan api.Usage {
	samples := make(chan api.Usage, hubBuffer)
	h.change(func() { h.streams[samples] = session })
	return samples
}

// Unsubscribe ends a subscription.
func (h *Hub) Unsubscribe(samples chan api.Usage) { h.change(func() { delete(h.streams, samples) }) }

func (h *Hub) change(streams func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	streams()
	close(h.changed)
	h.changed = make(chan struct{})
}

// looking reports whether somebody looks at a session, and returns the channel that is
// closed when that may have changed.
func (h *Hub) looking(session string) (looked bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.streams {
		looked = looked || at == "" || at == session
	}
	return looked, h.changed
}

// publish gives a sample to everybody who looks at its session. It drops what a slow client
// has no room for.
func (h *Hub) publish(u api.Usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for samples, at := range h.streams {
		if at == "" || at == u.Session {
			select {
			case samples <- u:
			default:
			}
		}
	}
}
