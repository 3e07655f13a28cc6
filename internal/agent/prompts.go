package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"tunctl/internal/api"
	"tunctl/tunnel"
)

// prompts passes questions of hosts and keys to a person, and the answers back.
type prompts struct {
	hub *hub

	mu      sync.Mutex
	waiting map[string]chan api.Answer
}

func newPrompts(h *hub) *prompts {
	return &prompts{hub: h, waiting: map[string]chan api.Answer{}}
}

// Prompt implements tunnel.Prompter. It asks through the client that caused the question,
// else through a desktop. A client that leaves without an answer, as by Ctrl-C, has
// declined it.
func (p *prompts) Prompt(ctx context.Context, q api.Prompt, shown func()) (api.Answer, error) {
	q.ID = rand.Text()
	answer := make(chan api.Answer, 1)
	p.mu.Lock()
	p.waiting[q.ID] = answer
	p.mu.Unlock()
	defer p.close(q)
	receivers := p.hub.publishPrompt(api.Event{Type: api.EventPrompt, Prompt: &q})
	if len(receivers) == 0 {
		return api.Answer{}, fmt.Errorf("%s asks %q: %w", q.Host, q.Text, tunnel.ErrNobody)
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

func (p *prompts) close(q api.Prompt) {
	p.mu.Lock()
	delete(p.waiting, q.ID)
	p.mu.Unlock()
	p.hub.publish(api.Event{Type: api.EventPromptClosed, Prompt: &api.Prompt{ID: q.ID, Host: q.Host, Kind: q.Kind}})
}

// answer passes a person's answer to the prompt that waits for it.
func (p *prompts) answer(id string, a api.Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, ok := p.waiting[id]
	if !ok {
		return api.Errorf(api.CodeUsage, "the question is no longer open")
	}
	delete(p.waiting, id) // the first answer counts
	waiting <- a
	return nil
}
