package events

import (
	"context"
	"errors"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

const (
	// approvalTime is how long the user has to answer what an assistant asks.
	approvalTime = 5 * time.Minute
	// approvalWait is how long one request waits for the answer: clients of assistants give up
	// after a minute. The question stays, and the same request gets its answer later.
	approvalWait = 45 * time.Second
	// approvalKept is how long an answer waits for the request that it allows.
	approvalKept = 5 * time.Minute
	// approvalPause is how long nobody is asked again after a question without a yes.
	approvalPause = time.Minute
)

// approvals asks the user about one thing at a time.
type approvals struct {
	mu      sync.Mutex
	current *question // the last one; nil: its answer was given to the request
	paused  time.Time // nobody is asked before
	why     string    // why not
}

// question is one to the user. It outlives the request that caused it.
type question struct {
	client, text string
	asked        time.Time
	answered     chan struct{} // closed once err is set
	err          error         // nil: yes
	ended        time.Time     // zero: it is open
}

// find returns the question of a request: a new one, which ask asks, or the one before if it
// is the same.
func (a *approvals) find(client, text string, now time.Time, ask func() error) (*question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.current
	open := q != nil && q.ended.IsZero()
	if q != nil && !open && now.Sub(q.ended) > approvalKept {
		q = nil
	}
	same := q != nil && q.client == client && q.text == text
	switch wait := a.paused.Sub(now); {
	case same:
		return q, nil
	case open:
		return nil, api.Errorf(api.CodeNotReady, "the person is being asked about another request").
			WithHint("try again when that is answered")
	case wait > 0:
		return nil, api.Errorf(api.CodeNotReady, "%s", a.why).
			WithHint("ask them in the conversation, and try again in %s at the earliest", api.DurationText(max(wait.Round(time.Second), time.Second)))
	}
	q = &question{client: client, text: text, asked: now, answered: make(chan struct{})}
	a.current = q
	go func() {
		err := ask()
		a.mu.Lock()
		defer a.mu.Unlock()
		q.err, q.ended = err, time.Now()
		if why := noYes[err]; why != "" {
			a.paused, a.why = q.ended.Add(approvalPause), why
		}
		close(q.answered)
	}()
	return q, nil
}

// take gives the answer to its request, once.
func (a *approvals) take(q *question) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == q {
		a.current = nil
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

// Approve asks a user about something that an assistant wants on a host. The client that asks for
// it cannot answer. A request that is given up leaves the question: the next one like it gets
// the answer.
func (p *Prompts) Approve(ctx context.Context, client, host, text string) error {
	q, err := p.approvals.find(client, text, time.Now(), func() error {
		return p.askApproval(context.WithoutCancel(ctx), api.Prompt{Host: host, Kind: api.PromptApproval, Text: text, Client: client})
	})
	if err != nil {
		return err
	}
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
