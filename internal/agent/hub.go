package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
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
func (h *hub) subscribe(client string, answers api.Answers) *subscriber {
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
// person, to desktops. It returns who received it. Whoever wants an approval is
// not asked for it.
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

// prompts passes questions of hosts and keys to a person, and the answers back.
type prompts struct {
	hub     *hub
	waiting sync.Map // a chan api.Answer by the ID of its prompt
}

func newPrompts(h *hub) *prompts { return &prompts{hub: h} }

// Prompt implements tunnel.Prompter. It asks through the client that caused the question,
// else through a desktop. A client that leaves without an answer, as by Ctrl-C, has
// declined it.
func (p *prompts) Prompt(ctx context.Context, q api.Prompt, shown func()) (api.Answer, error) {
	q.ID = rand.Text()
	answer := make(chan api.Answer, 1)
	p.waiting.Store(q.ID, answer)
	defer func() {
		p.waiting.Delete(q.ID)
		p.hub.publish(api.Event{Type: api.EventPromptClosed, Prompt: &api.Prompt{ID: q.ID, Host: q.Host, Kind: q.Kind}})
	}()
	receivers := p.hub.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &q})
	if len(receivers) == 0 {
		return api.Answer{}, fmt.Errorf("%s asks %q: %w", q.Host, q.Text, failure.ErrNobody)
	}
	shown()
	for _, w := range receivers {
		select {
		case a := <-answer:
			return a, nil
		case <-ctx.Done():
			return api.Answer{}, context.Cause(ctx)
		case <-w.gone:
		}
	}
	select {
	case a := <-answer: // a client may answer and leave at once
		return a, nil
	default:
		return api.Answer{Cancelled: true}, nil
	}
}

// answer passes a person's answer to the prompt that waits for it. The first answer counts.
func (p *prompts) answer(id string, a api.Answer) error {
	waiting, ok := p.waiting.LoadAndDelete(id)
	if !ok {
		return api.Errorf(api.CodeUsage, "the question is no longer open")
	}
	waiting.(chan api.Answer) <- a
	return nil
}
