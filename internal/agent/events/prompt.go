package events

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

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
