// Package events brings what happens to the clients that watch, and their answers back: the
// questions of hosts and keys, and what an assistant wants. It does not know what an event is about.
package events

import (
	"context"
	"sync"
	"time"

	"tunctl/internal/api"
)

// subscriberBuffer is how many events a subscriber may lag behind before it is dropped.
const subscriberBuffer = 256

// Hub sends events to subscribers. A slow subscriber is dropped, never waited for.
type Hub struct {
	mu          sync.Mutex
	subscribers map[*Subscriber]bool
}

// Subscriber is one reader of the events.
type Subscriber struct {
	client  string // see api.ClientHeader
	answers api.Answers
	// C has the events. It is closed when the subscriber is dropped.
	C    chan api.Event
	gone chan struct{} // closed then, too
}

// NewHub returns a hub that nobody listens to yet.
func NewHub() *Hub { return &Hub{subscribers: map[*Subscriber]bool{}} }

// Subscribe adds a subscriber. It must read the status after this call, so that no change
// is lost in between: the last event of a thing is always its last state.
func (h *Hub) Subscribe(client string, answers api.Answers) *Subscriber {
	w := &Subscriber{client: client, answers: answers, C: make(chan api.Event, subscriberBuffer), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[w] = true
	return w
}

// Unsubscribe removes a subscriber.
func (h *Hub) Unsubscribe(w *Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(w)
}

func (h *Hub) dropLocked(w *Subscriber) {
	if h.subscribers[w] {
		delete(h.subscribers, w)
		close(w.C)
		close(w.gone)
	}
}

// HasDesktop reports whether a subscriber can show questions in dialogs.
func (h *Hub) HasDesktop() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.subscribers {
		if w.answers == api.AnswersDesktop {
			return true
		}
	}
	return false
}

// Close drops all subscribers.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.subscribers {
		h.dropLocked(w)
	}
}

// Publish sends e to all subscribers.
func (h *Hub) Publish(e api.Event) {
	h.publishTo(e, func(*Subscriber) bool { return true })
}

// publishPrompt sends a prompt to the client that caused it or, if that cannot ask a
// user, to desktops. It returns who received it. Whoever wants an approval is
// not asked for it.
func (h *Hub) publishPrompt(e api.Event) []*Subscriber {
	caused := func(w *Subscriber) bool { return w.client == e.Prompt.Client }
	if e.Prompt.Kind == api.PromptApproval {
		return h.publishTo(e, func(w *Subscriber) bool {
			return !caused(w) && (w.answers == api.AnswersDesktop || w.answers == api.AnswersApproval)
		})
	}
	for _, to := range []func(*Subscriber) bool{
		func(w *Subscriber) bool { return caused(w) && w.answers == api.AnswersTerminal },
		func(w *Subscriber) bool { return caused(w) && w.answers == api.AnswersDesktop },
		func(w *Subscriber) bool { return w.answers == api.AnswersDesktop },
	} {
		if asked := h.publishTo(e, to); len(asked) > 0 {
			return asked
		}
	}
	return nil
}

func (h *Hub) publishTo(e api.Event, to func(*Subscriber) bool) (reached []*Subscriber) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.subscribers {
		if !to(w) {
			continue
		}
		select {
		case w.C <- e:
			reached = append(reached, w)
		default:
			h.dropLocked(w)
		}
	}
	return reached
}

// catchUp is how long what is shown may take to follow what has happened.
const catchUp = 5 * time.Second

// Await checks done at every event until it is true, at most for catchUp.
func (w *Subscriber) Await(ctx context.Context, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for !done() {
		select {
		case _, ok := <-w.C:
			if !ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
