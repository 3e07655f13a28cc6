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
	// approvalTime is how long a person has to answer what an assistant asks: assistants do
	// not wait much longer.
	approvalTime = 2 * time.Minute
	// approvalPause is how long nobody is asked again after a question without a yes.
	approvalPause = time.Minute
)

// approvals asks a person about one thing at a time.
type approvals struct {
	mu       sync.Mutex
	asking   bool
	declined time.Time // when a person last did not say yes
}

// begin reports why nobody may be asked now, if so. Else end must follow.
func (q *approvals) begin(now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch wait := q.declined.Add(approvalPause).Sub(now); {
	case q.asking:
		return api.Errorf(api.CodeNotReady, "the person is being asked about another request").
			WithHint("try again when that is answered")
	case wait > 0:
		return api.Errorf(api.CodeNotReady, "the person has just been asked, and did not agree").
			WithHint("ask them in the conversation, and try again in %s at the earliest", api.DurationText(wait.Round(time.Second)))
	}
	q.asking = true
	return nil
}

func (q *approvals) end(declined bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asking = false
	if declined {
		q.declined = now
	}
}

// Approve asks a user about something that an assistant wants on a host. The client that asks for
// it cannot answer.
func (p *Prompts) Approve(ctx context.Context, client, host, text string) error {
	if err := p.approvals.begin(time.Now()); err != nil {
		return err
	}
	declined := false
	defer func() { p.approvals.end(declined, time.Now()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, approvalTime, api.Errorf(api.CodeTimeout, "the person did not answer within %s",
		api.DurationText(approvalTime)).WithHint("ask them in the conversation, then try again"))
	defer cancel()
	answer, err := p.Prompt(ctx, api.Prompt{Host: host, Kind: api.PromptApproval, Text: text, Client: client}, func() {})
	switch {
	case errors.Is(err, failure.ErrNobody):
		return api.Errorf(api.CodeNeedsPerson, "an assistant may not do this alone, and there is nobody to ask").
			WithHint("the person can start the tray (`tunctl tray`) or run `tunctl mcp approve` in a terminal; then try again")
	case err != nil: // nobody answered, or the assistant asks no longer: no window follows at once
		declined = true
		return err
	case answer.Text != "yes":
		declined = true
		return api.Errorf(api.CodeNeedsPerson, "the person did not allow it").
			WithHint("do not try again unless they ask you to")
	}
	return nil
}
