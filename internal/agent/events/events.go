// Package events brings what happens to the clients that watch, and their answers back: the
// questions of hosts and keys, and what an assistant wants. It does not know what an event is about.
package events

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
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
func (h *Hub) Publish(e api.Event) { h.publishTo(e, func(*Subscriber) bool { return true }) }

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

// Prompts passes questions of hosts and keys to the user, and the answers back.
type Prompts struct {
	hub     *Hub
	waiting sync.Map // a chan api.Answer by the ID of its prompt

	approvals approvals
}

// NewPrompts returns the questions that go to the clients of a hub.
func NewPrompts(h *Hub) *Prompts { return &Prompts{hub: h} }

// Prompt implements tunnel.Prompter. It asks through the client that caused the question,
// else through a desktop. A client that leaves without an answer, as by Ctrl-C, has
// declined it.
func (p *Prompts) Prompt(ctx context.Context, q api.Prompt, shown func()) (api.Answer, error) {
	q.ID = rand.Text()
	answer := make(chan api.Answer, 1)
	p.waiting.Store(q.ID, answer)
	defer func() {
		p.waiting.Delete(q.ID)
		p.hub.Publish(api.Event{Type: api.EventPromptClosed, Prompt: &api.Prompt{ID: q.ID, Host: q.Host, Kind: q.Kind}})
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

// Answer passes the user's answer to the prompt that waits for it. The first answer counts.
func (p *Prompts) Answer(id string, a api.Answer) error {
	waiting, ok := p.waiting.LoadAndDelete(id)
	if !ok {
		return api.Errorf(api.CodeUsage, "the question is no longer open")
	}
	waiting.(chan api.Answer) <- a
	return nil
}

const (
	// approvalTime is how long the user has to answer what an assistant asks.
	approvalTime = 5 * time.Minute
	// approvalWait is how long one request waits for the answer: clients of assistants give up
	// after a minute. The question stays, and the same request gets its answer later.
	approvalWait = 45 * time.Second
	// approvalKept is how long an answer waits for the request that it allows.
	approvalKept = 5 * time.Minute
	// approvalRepeat is how long a yes holds for the same request again: the client may have left
	// as the answer came. The text of a start says how much is left, so one yes starts one job; and
	// it holds no longer than until the session is taken down.
	approvalRepeat = time.Minute
	// approvalPause is how long nobody is asked again after a question without a yes.
	approvalPause = time.Minute
)

// approvals asks the user about one thing at a time.
type approvals struct {
	mu   sync.Mutex
	last *question // nil: none was asked yet
}

// question is one to the user. It outlives the request that caused it.
type question struct {
	client, text string
	downs        int64 // of the session it is about
	asked        time.Time
	waiting      atomic.Int32  // requests that wait for the answer
	answered     chan struct{} // closed once err is set
	err          error         // nil: yes
	ended        time.Time     // zero: it is open
	kept         time.Time     // until when a request like it gets the answer
}

// find returns the question of a request: a new one, which ask asks, or the one before if it
// is the same. unheard is called for a yes that no request waits for.
func (a *approvals) find(client, text string, downs int64, now time.Time, ask func() error, unheard func()) (*question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.last; q != nil {
		open, wait := q.ended.IsZero(), q.ended.Add(approvalPause).Sub(now)
		switch {
		case q.client == client && q.text == text && q.downs == downs && (open || now.Before(q.kept)):
			q.waiting.Add(1)
			return q, nil
		case open:
			return nil, api.Errorf(api.CodeNotReady, "the person is being asked about another request").
				WithHint("try again when that is answered")
		case wait > 0 && noYes[q.err] != "":
			return nil, api.Errorf(api.CodeNotReady, "%s", noYes[q.err]).
				WithHint("ask them in the conversation, and try again in %s at the earliest", api.DurationText(max(wait.Round(time.Second), time.Second)))
		}
	}
	q := &question{client: client, text: text, downs: downs, asked: now, answered: make(chan struct{})}
	q.waiting.Add(1)
	a.last = q
	go func() {
		err := ask()
		a.mu.Lock()
		defer a.mu.Unlock()
		q.err, q.ended = err, time.Now()
		q.kept = q.ended.Add(approvalKept)
		close(q.answered)
		if err == nil && q.waiting.Load() == 0 {
			unheard()
		}
	}()
	return q, nil
}

// take gives the answer to its request.
func (a *approvals) take(q *question) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	until := time.Now()
	if q.err == nil {
		until = until.Add(approvalRepeat)
	}
	if until.Before(q.kept) {
		q.kept = until
	}
	return q.err
}

var (
	errDeclined = api.Errorf(api.CodeNeedsPerson, "the person did not allow it").
			WithHint("do not try again unless they ask you to")
	errClosed = api.Errorf(api.CodeNeedsPerson, "the question was closed without an answer").
			WithHint("ask the person in the conversation, then try again")
	errNotAnswered = api.Errorf(api.CodeTimeout, "the person did not answer within %s", api.DurationText(approvalTime)).
			WithHint("ask them in the conversation, then try again")
)

// noYes is why nobody is asked again at once.
var noYes = map[error]string{
	errDeclined:    "the person has just been asked, and did not agree",
	errClosed:      "the person has just been asked, and closed the question",
	errNotAnswered: "the person has just been asked, and did not answer",
}

// Approve asks a user about something that an assistant wants with a session on a host, which was taken
// down so often. The client that asks for it cannot answer. A request that is given up leaves the
// question: the next one like it gets the answer.
func (p *Prompts) Approve(ctx context.Context, client, host, text string, downs int64) error {
	q, err := p.approvals.find(client, text, downs, time.Now(), func() error {
		return p.askApproval(context.WithoutCancel(ctx), api.Prompt{Host: host, Kind: api.PromptApproval, Text: text, Client: client})
	}, func() {
		p.hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Text: "the assistant no longer waits: it has your yes if it asks again within " + api.DurationText(approvalKept)}})
	})
	if err != nil {
		return err
	}
	defer q.waiting.Add(-1)
	wait := time.NewTimer(approvalWait)
	defer wait.Stop()
	select {
	case <-q.answered:
		return p.approvals.take(q)
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return api.Errorf(api.CodeNotReady, "the person was asked, and has not answered yet").
			WithHint("call again with the same arguments: the question stays open for another %s", api.DurationText(time.Until(q.asked.Add(approvalTime)).Round(time.Second)))
	}
}

// askApproval asks a question until it is answered or its time is over.
func (p *Prompts) askApproval(ctx context.Context, question api.Prompt) error {
	ctx, cancel := context.WithTimeoutCause(ctx, approvalTime, errNotAnswered)
	defer cancel()
	answer, err := p.Prompt(ctx, question, func() {})
	switch {
	case errors.Is(err, failure.ErrNobody):
		return api.Errorf(api.CodeNeedsPerson, "an assistant may not do this alone, and there is nobody to ask").
			WithHint("the person can start the tray (`tunctl tray`) or run `tunctl mcp approve` in a terminal; then try again")
	case err != nil:
		return err
	case answer.Cancelled:
		return errClosed
	case answer.Text != "yes":
		return errDeclined
	}
	return nil
}
