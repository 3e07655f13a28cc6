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
	answers api.Answers
	events  chan api.Event // closed when the watcher is dropped
}

func newHub() *hub { return &hub{watchers: map[*watcher]bool{}} }

// watch adds a reader. Whoever reads takes the status after this call, so that no
// change falls between the two: the last event of a thing is always its last state.
func (h *hub) watch(answers api.Answers) *watcher {
	w := &watcher{answers: answers, events: make(chan api.Event, hubBuffer)}
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

// ask hands a prompt to those who can put it to a person, terminals before
// desktops, and reports whether there was anyone.
func (h *hub) ask(e api.Event) bool {
	for _, kind := range []api.Answers{api.AnswersTerminal, api.AnswersDesktop} {
		if h.publishTo(e, func(w *watcher) bool { return w.answers == kind }) > 0 {
			return true
		}
	}
	return false
}

func (h *hub) publishTo(e api.Event, to func(*watcher) bool) int {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	reached := 0
	for w := range h.watchers {
		if !to(w) {
			continue
		}
		select {
		case w.events <- e:
			reached++
		default:
			h.dropLocked(w)
		}
	}
	return reached
}
