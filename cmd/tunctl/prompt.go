package main

import (
	"context"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

// askPerson puts a prompt of the agent to the person at the terminal. A password is
// kept as they said beforehand.
func askPerson(ctx context.Context, t *terminal, cl *client.Client, p api.Prompt, keep api.Keep) {
	answer, err := readAnswer(ctx, t, p)
	if p.Kind == api.PromptPassword {
		answer.Keep = keep
	}
	if err != nil {
		answer = api.Answer{Cancelled: true}
		ctx = context.WithoutCancel(ctx) // a Ctrl-C is an answer too
	}
	if err := cl.Answer(ctx, p.ID, answer); err != nil {
		t.say("tunctl: %v", err)
	}
}

func readAnswer(ctx context.Context, t *terminal, p api.Prompt) (api.Answer, error) {
	if p.Instruction != "" {
		t.say("%s: %s", p.Host, strings.TrimSpace(p.Instruction))
	}
	if p.Kind != api.PromptHostKey && p.Kind != api.PromptConfirm {
		text, err := t.readLine(ctx, p.Host+": "+spaced(p.Text), p.Echo)
		return api.Answer{Text: text}, err
	}
	if p.Fingerprint != "" {
		t.say("%s\n  its key is %s", p.Text, p.Fingerprint)
	} else {
		t.say("%s", p.Text)
	}
	for {
		text, err := t.readLine(ctx, "Type yes to go on, no to stop: ", true)
		switch {
		case err != nil:
			return api.Answer{}, err
		case strings.EqualFold(text, "yes"):
			return api.Answer{Text: "yes"}, nil
		case strings.EqualFold(text, "no"):
			return api.Answer{Cancelled: true}, nil
		}
	}
}

// spaced ends a question with one space, as servers forget to.
func spaced(question string) string {
	return strings.TrimRight(question, " ") + " "
}
