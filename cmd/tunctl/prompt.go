package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

// questions puts prompts of the agent to the person at the terminal, while the command
// goes on reading events: one of them may withdraw a question. All but wait are for the
// goroutine that reads the events.
type questions struct {
	term   *term.Terminal
	client *client.Client
	keep   api.Keep // what becomes of a password

	open      map[string]context.CancelCauseFunc // by the prompt's id
	elsewhere bool                               // the person knows that another window asks
	asking    sync.WaitGroup
}

// hear takes an event in, and reports whether it is a prompt, which is no news to anybody
// else.
func (q *questions) hear(ctx context.Context, e api.Event) bool {
	switch {
	case e.Type == api.EventPrompt && e.Prompt != nil:
		p := *e.Prompt
		asking, withdraw := context.WithCancelCause(ctx)
		if q.open == nil {
			q.open = map[string]context.CancelCauseFunc{}
		}
		q.open[p.ID] = withdraw
		q.asking.Go(func() {
			defer withdraw(nil)
			q.ask(asking, p)
		})
		return true
	case e.Type == api.EventPromptClosed && e.Prompt != nil:
		if withdraw, ours := q.open[e.Prompt.ID]; ours {
			withdraw(term.ErrWithdrawn)
			delete(q.open, e.Prompt.ID)
		}
	case e.Type == api.EventSession && e.Session.Cause == api.AskedElsewhere && len(q.open) > 0:
		e.Session.Cause = "" // it is asked here
	}
	return false
}

// follow says when the login of a host that the person waits for is another window's.
func (q *questions) follow(h api.Host) {
	if h.Asking == "" {
		return
	}
	elsewhere := len(q.open) == 0
	if elsewhere && !q.elsewhere { // once, and not for each of its questions
		q.term.Say("%s: %s", api.HostLabel(h.Alias), api.AskedElsewhere)
	}
	q.elsewhere = elsewhere
}

// wait returns when no question is open; with its context ended, none is.
func (q *questions) wait() { q.asking.Wait() }

// ask puts one prompt to the person and passes the answer on.
func (q *questions) ask(ctx context.Context, p api.Prompt) {
	answer, err := readAnswer(ctx, q.term, p)
	if errors.Is(context.Cause(ctx), term.ErrWithdrawn) {
		return
	}
	if p.Kind == api.PromptPassword {
		answer.Keep = q.keep
	}
	if err != nil {
		answer = api.Answer{Cancelled: true}
		ctx = context.WithoutCancel(ctx) // a Ctrl-C is an answer too
	}
	if err := q.client.Answer(ctx, p.ID, answer); err != nil && ctx.Err() == nil && !answer.Cancelled {
		q.term.Say("tunctl: %v", err)
	}
}

func readAnswer(ctx context.Context, t *term.Terminal, p api.Prompt) (api.Answer, error) {
	host := api.HostLabel(p.Host)
	if p.Retry != "" {
		t.Say("%s: %s", host, p.Retry)
	}
	if p.Instruction != "" {
		t.Say("%s: %s", host, strings.TrimSpace(p.Instruction))
	}
	if p.Kind != api.PromptHostKey && p.Kind != api.PromptConfirm {
		text, err := t.ReadLine(ctx, host+": "+spaced(p.Text), p.Echo)
		return api.Answer{Text: text}, err
	}
	t.Say("%s", p.Text)
	if p.Fingerprint != "" && !strings.Contains(p.Text, p.Fingerprint) {
		t.Say("  fingerprint: %s", p.Fingerprint)
	}
	for {
		text, err := t.ReadLine(ctx, "Type yes to continue, no to stop: ", true)
		switch text = strings.ToLower(strings.TrimSpace(text)); {
		case err != nil:
			return api.Answer{}, err
		case text == "yes", text == "no":
			return api.Answer{Text: text}, nil
		}
	}
}

// spaced ends a question with one space, as servers forget to.
func spaced(question string) string {
	return strings.TrimRight(question, " ") + " "
}
