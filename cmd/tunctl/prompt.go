package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/term"
)

// promptReader puts the agent's prompts to the user at the terminal, while the command keeps
// reading events: one of them may withdraw a question. Only the goroutine that watches the agent
// may call handle.
type promptReader struct {
	term   *term.Terminal
	client *client.Client
	keep   api.Keep // whether to save a password
	host   string   // whose login, if another window asks for it, is worth a message

	kinds     []api.PromptKind                   // of what was asked
	open      map[string]context.CancelCauseFunc // by the prompt's id
	elsewhere bool                               // it was said that another window asks
	asking    sync.WaitGroup
}

// handle opens and withdraws questions. It reports whether the event is a prompt, which
// nobody else needs.
func (q *promptReader) handle(ctx context.Context, e api.Event) bool {
	switch {
	case e.Status != nil:
		for _, h := range e.Status.Hosts {
			q.sayElsewhere(h)
		}
	case e.Type == api.EventHost:
		q.sayElsewhere(*e.Host)
	case e.Type == api.EventPrompt && e.Prompt != nil:
		p := *e.Prompt
		asking, withdraw := context.WithCancelCause(ctx)
		if q.open == nil {
			q.open = map[string]context.CancelCauseFunc{}
		}
		q.open[p.ID] = withdraw
		q.kinds = append(q.kinds, p.Kind)
		q.asking.Go(func() {
			defer withdraw(nil)
			q.put(asking, p)
		})
		return true
	case e.Type == api.EventPromptClosed && e.Prompt != nil:
		if withdraw, ours := q.open[e.Prompt.ID]; ours {
			withdraw(term.ErrWithdrawn)
			delete(q.open, e.Prompt.ID)
		}
	case e.Type == api.EventSession && e.Session.Cause == api.AskedElsewhere && len(q.open) > 0:
		e.Session.Cause = "" // this terminal asks
	}
	return false
}

// events are those of the agent, the first with its status, until stop is called or ctx or the agent ends.
// Meanwhile the questions of hosts are put to the user.
func (q *promptReader) events(ctx context.Context, waiter string) (others <-chan api.Event, stop func()) {
	answers := api.AnswersNone
	if q.term.Interactive {
		answers = api.AnswersTerminal
	}
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan api.Event)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer close(events)
		defer q.asking.Wait() // the end of the context closes them
		// A request has the error.
		_ = q.client.Watch(ctx, answers, waiter, func(e api.Event) {
			if q.handle(ctx, e) {
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
			}
		})
	})
	return events, func() {
		cancel()
		watching.Wait()
	}
}

// during calls request, and puts the questions of hosts to the user until it returns: from before
// the request, so that none is missed. each gets the other events.
func (q *promptReader) during(ctx context.Context, request func(), each func(api.Event)) {
	events, stop := q.events(ctx, "")
	each(<-events) // empty without an agent, as the request says
	var passing sync.WaitGroup
	defer passing.Wait()
	defer stop()
	passing.Go(func() {
		for e := range events {
			each(e)
		}
	})
	request()
}

// sayElsewhere says when another window asks for the login of the host.
func (q *promptReader) sayElsewhere(h api.Host) {
	if h.Alias != q.host || h.Asking == "" {
		return
	}
	elsewhere := len(q.open) == 0
	if elsewhere && !q.elsewhere { // once, not for each question
		q.term.Say("%s: %s", api.HostLabel(h.Alias), api.AskedElsewhere)
	}
	q.elsewhere = elsewhere
}

// put asks the user one prompt, and sends the answer to the agent.
func (q *promptReader) put(ctx context.Context, p api.Prompt) {
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
	if p.Kind != api.PromptHostKey && p.Kind != api.PromptConfirm && p.Kind != api.PromptApproval {
		question := sayFirstLines(t, p)
		if len(p.Links) > 0 {
			if err := offerPage(ctx, t, p); err != nil {
				return api.Answer{}, err
			}
		}
		question = strings.TrimRight(question, " ") + " " // which servers forget
		text, err := t.ReadAnswer(ctx, host+": "+question, p.Echo)
		return api.Answer{Text: text}, err
	}
	t.Say("%s", p.Text)
	if p.Fingerprint != "" && !strings.Contains(p.Text, p.Fingerprint) {
		t.Say("  fingerprint: %s", p.Fingerprint)
	}
	for {
		text, err := t.ReadAnswer(ctx, "Type yes to continue, no to stop: ", true)
		switch text = strings.ToLower(strings.TrimSpace(text)); {
		case err != nil:
			return api.Answer{}, err
		case text == "yes":
			return api.Answer{Text: text}, nil
		case text == "no", text == "n":
			return api.Answer{Text: "no"}, nil
		}
	}
}

// doneThere is the question in place of one that only has a link.
const doneThere = "press Enter when you are done there:"

// sayFirstLines prints a question but for its last line, which it returns. A link stays in
// the text above the question, where it can be copied.
func sayFirstLines(t *term.Terminal, p api.Prompt) string {
	if p.Kind == api.PromptPage { // its text is for where there is nobody
		return doneThere
	}
	text := strings.TrimSpace(p.Text)
	i := strings.LastIndexByte(text, '\n') + 1
	first, question := strings.TrimSpace(text[:i]), text[i:]
	if slices.ContainsFunc(p.Links, func(link string) bool { return strings.Contains(question, link) }) {
		first, question = text, doneThere
	}
	if first != "" {
		t.Say("%s: %s", api.HostLabel(p.Host), first)
	}
	return question
}

// offerPage prints the links that were cut from the server's texts, and opens the page of the
// login, if it may be opened and the user agrees.
func offerPage(ctx context.Context, t *term.Terminal, p api.Prompt) error {
	for _, link := range p.Links {
		if !strings.Contains(p.Text+"\n"+p.Instruction, link) {
			t.Say("the whole address:\n\n  %s\n", link) // which is not wrapped
		}
	}
	if p.LoginPage == "" {
		t.Say("Copy the address into your browser, if you trust it: tunctl opens only pages that the site names in login_pages.")
		return nil
	}
	host := strings.TrimPrefix(p.LoginPage, "https://")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	yes, err := t.Agrees(ctx, "Open this page of "+host+" in your browser?", true)
	if !yes {
		return err
	}
	if err := desktop.Open(ctx, p.LoginPage); err != nil && ctx.Err() == nil {
		t.Say("The page did not open: copy its address into your browser.")
	}
	return ctx.Err()
}
