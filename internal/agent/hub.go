package agent

import (
	"sync"
	"time"

	"tunctl/internal/api"
)

// subscriberBuffer is how many events a subscriber may lag behind before it is dropped.
const subscriberBuffer = 256

// hub sends events to subscribers. A slow subscriber is dropped, never waited for.
type hub struct {
	mu          sync.Mutex
	subscribers map[*subscriber]bool
}

// subscriber is one reader of the events.
type subscriber struct {
	client  string // see api.ClientHeader
	answers api.Answers
	events  chan api.Event // closed when the subscriber is dropped
	gone    chan struct{}  // closed then, too
}

func newHub() *hub { return &hub{subscribers: map[*subscriber]bool{}} }

// subscribe adds a subscriber. It must read the status after this call, so that no change
// is lost in between: the last event of a thing is always its last state.
func (h *hub) subscribe(answers api.Answers) *subscriber { return h.subscribeAs("", answers) }

// subscribeAs is subscribe for a named client.
func (h *hub) subscribeAs(client string, answers api.Answers) *subscriber {
	w := &subscriber{client: client, answers: answers, events: make(chan api.Event, subscriberBuffer), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers[w] = true
	return w
}

// unsubscribe removes a subscriber.
func (h *hub) unsubscribe(w *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(w)
}

func (h *hub) dropLocked(w *subscriber) {
	if h.subscribers[w] {
		delete(h.subscribers, w)
		close(w.events)
		close(w.gone)
	}
}

// close drops all subscribers.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.subscribers {
		h.dropLocked(w)
	}
}

// publish sends e to all subscribers.
func (h *hub) publish(e api.Event) {
	h.publishTo(e, func(*subscriber) bool { return true })
}

// publishPrompt sends a prompt to the client that caused it or, if that cannot ask a
// person, to desktops. It returns who received it. Old clients have no name, and all
// count as the one that caused it. Whoever wants an approval is not asked for it.
func (h *hub) publishPrompt(e api.Event) []*subscriber {
	caused := func(w *subscriber) bool { return w.client == e.Prompt.Client }
	if e.Prompt.Kind == api.PromptApproval {
		return h.publishTo(e, func(w *subscriber) bool {
			return !caused(w) && (w.answers == api.AnswersDesktop || w.answers == api.AnswersApproval)
		})
	}
	for _, to := range []func(*subscriber) bool{
		func(w *subscriber) bool { return caused(w) && w.answers == api.AnswersTerminal },
		func(w *subscriber) bool { return caused(w) && w.answers == api.AnswersDesktop },
		func(w *subscriber) bool { return w.answers == api.AnswersDesktop },
	} {
		if asked := h.publishTo(e, to); len(asked) > 0 {
			return asked
		}
	}
	return nil
}

func (h *hub) publishTo(e api.Event, to func(*subscriber) bool) (reached []*subscriber) {
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
		case w.events <- e:
			reached = append(reached, w)
		default:
			h.dropLocked(w)
		}
	}
	return reached
}
