package agent

import (
	"sync"
	"time"

	"tunctl/internal/api"
)

// hubBuffer is how many events a watcher may lag behind before it is dropped.
const hubBuffer = 256

// hub hands events to watchers. A slow watcher is dropped, never waited for.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
}

// watcher is one reader of the event stream.
type watcher struct {
	client  string // see api.ClientHeader
	answers api.Answers
	events  chan api.Event // closed when the watcher is dropped
	gone    chan struct{}  // closed then, too
}

func newHub() *hub { return &hub{watchers: map[*watcher]bool{}} }

// watch adds a reader. Whoever reads takes the status after this call, so that no
// change falls between the two: the last event of a thing is always its last state.
func (h *hub) watch(answers api.Answers) *watcher { return h.watchFor("", answers) }

// watchFor is watch for a client.
func (h *hub) watchFor(client string, answers api.Answers) *watcher {
	w := &watcher{client: client, answers: answers, events: make(chan api.Event, hubBuffer), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = true
	return w
}

// leave removes a reader.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(w)
}

func (h *hub) dropLocked(w *watcher) {
	if h.watchers[w] {
		delete(h.watchers, w)
		close(w.events)
		close(w.gone)
	}
}

// close drops all readers.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		h.dropLocked(w)
	}
}

// publish hands e to every reader.
func (h *hub) publish(e api.Event) {
	h.publishTo(e, func(*watcher) bool { return true })
}

// ask hands a prompt to the client that caused it, or, where that cannot put it to a
// person, to desktops. It returns those who were asked. A client of before client names
// has none, and asks as all of its kind do.
func (h *hub) ask(e api.Event) []*watcher {
	caused := func(w *watcher) bool { return w.client == e.Prompt.Client }
	for _, to := range []func(*watcher) bool{
		func(w *watcher) bool { return caused(w) && w.answers == api.AnswersTerminal },
		func(w *watcher) bool { return caused(w) && w.answers == api.AnswersDesktop },
		func(w *watcher) bool { return w.answers == api.AnswersDesktop },
	} {
		if asked := h.publishTo(e, to); len(asked) > 0 {
			return asked
		}
	}
	return nil
}

func (h *hub) publishTo(e api.Event, to func(*watcher) bool) (reached []*watcher) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
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
