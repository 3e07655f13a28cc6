package tunnel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tunctl/internal/api"
)

// ask is question for those who need the text only.
func (t *attempt) ask(ctx context.Context, p api.Prompt) (string, error) {
	answer, err := t.question(ctx, p)
	return answer.Text, err
}

// question asks the person who waits for this try. The handshake's clock stands still
// meanwhile. Its error is final for the try.
func (t *attempt) question(ctx context.Context, p api.Prompt) (api.Answer, error) {
	p.Host = t.host.name
	// Most questions are in the server's words, or in those of a program that we ran.
	p.Text, p.Instruction = api.NewRemoteText(p.Text).String(), api.NewRemoteText(p.Instruction).String()
	if !t.attended {
		return api.Answer{}, t.deny("it asks: "+strings.TrimSpace(p.Text), ErrNobody)
	}
	if t.guard != nil {
		t.guard.pause()
		defer t.guard.resume()
	}
	limit := t.pool.o.Limits.PromptTimeout
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := t.pool.o.Prompter.Prompt(asking, p)
	switch {
	case err == nil && answer.Cancelled:
		return api.Answer{}, t.deny("the question was not answered", context.Canceled)
	case err == nil:
		return answer, nil
	case errors.Is(err, ErrNobody):
		return api.Answer{}, t.deny("nobody was there to answer: "+strings.TrimSpace(p.Text), err)
	case ctx.Err() != nil:
		return api.Answer{}, err // the server or the wish has gone
	case asking.Err() != nil:
		return api.Answer{}, t.deny(fmt.Sprintf("no answer came within %v", limit), err)
	}
	return api.Answer{}, t.deny(fmt.Sprintf("asking failed: %v", err), err)
}

// deny stops the try: only a person can get further.
func (t *attempt) deny(why string, cause error) *api.Error {
	if t.denied == nil {
		t.denied = t.host.needsPerson(why, cause)
	}
	return t.denied
}

// confirmBan tells the person of a suspected ban before trying again.
func (t *attempt) confirmBan(ctx context.Context) error {
	answer, err := t.ask(ctx, api.Prompt{
		Kind: api.PromptConfirm, Echo: true,
		Text: fmt.Sprintf("%s may have banned this address after refused logins; another try can prolong that. Try anyway?", t.host.name),
	})
	if err != nil {
		return err
	}
	if !isYes(answer) {
		return t.deny("a ban is suspected, and you chose to wait", nil)
	}
	return nil
}

func isYes(answer string) bool {
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}
