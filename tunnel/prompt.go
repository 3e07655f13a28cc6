package tunnel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// awaitPerson gives the login a person's time from now on: the server may have asked them
// by other means, such as a push to a phone, or a key may need a touch.
func (t *attempt) awaitPerson() { t.timeout.restart(true, t.pool.o.Limits.PromptTimeout) }

// awaitHost gives the login the host's time from now on.
func (t *attempt) awaitHost() { t.timeout.restart(false, t.pool.o.Limits.HandshakeTimeout) }

// unconfirmed is the error of a login that a person did not confirm in their time.
func (t *attempt) unconfirmed(cause error) *api.Error {
	return needsUser(t.host.name, "the login was not confirmed within "+api.DurationText(t.pool.o.Limits.PromptTimeout), cause)
}

// hungUpLate reports whether a server that ended a login without a word has not refused
// it: a server that refuses in this way does so at once. Later, it is the end of the time
// that it gives a login (LoginGraceTime).
func (t *attempt) hungUpLate(began time.Time) bool {
	return time.Since(began) >= t.pool.o.Limits.HandshakeTimeout
}

// cutOff is the error of a login that the server did not wait for.
func (t *attempt) cutOff(cause error) *api.Error {
	return needsUser(t.host.name, "the server closed the connection before the login was complete", cause)
}

// Prompt asks the person who waits for this try. The handshake's timeout pauses
// meanwhile. An error ends the try.
func (t *attempt) Prompt(ctx context.Context, p api.Prompt) (api.Answer, error) {
	p.Host = t.host.name
	p.LoginPage = loginPage(p.Links, loginPages(t.host))
	// The texts come from the server, or from a program that we ran.
	p.Text, p.Instruction = api.NewRemoteText(p.Text).String(), api.NewRemoteText(p.Instruction).String()
	text := promptTexts[p.Kind]
	if !t.attended {
		return api.Answer{}, t.deny("the login asks "+text.wanted, failure.ErrNobody)
	}
	if t.timeout != nil {
		t.timeout.stop()
		defer t.timeout.resume(t.pool.o.Limits.PromptTimeout)
	}
	limit := t.pool.o.Limits.PromptTimeout
	if len(p.Links) > 0 {
		limit = max(limit, pageTimeout)
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer t.host.setAsking("", nil)
	answer, err := t.promptClients(asking, p)
	switch {
	case err == nil && answer.Cancelled:
		return api.Answer{}, t.deny(text.unanswered, context.Canceled)
	case err == nil:
		return answer, nil
	case errors.Is(err, failure.ErrNobody):
		return api.Answer{}, t.deny("there is no terminal or desktop to ask "+text.wanted, err)
	case ctx.Err() != nil:
		return api.Answer{}, err // the server hung up, or the host is no longer wanted
	case asking.Err() != nil:
		return api.Answer{}, t.deny(fmt.Sprintf("there was no answer within %s", api.DurationText(limit)), err)
	}
	return api.Answer{}, t.deny(fmt.Sprintf("asking failed: %v", err), err)
}

// promptClients asks through the client that caused the try. If that has left, or its
// person cancels, the next client that asked for the host is used.
func (t *attempt) promptClients(ctx context.Context, p api.Prompt) (api.Answer, error) {
	for {
		p.Client = t.client
		answer, err := t.pool.o.Prompter.Prompt(ctx, p, func() { t.host.setAsking(p.Kind, p.Links) })
		next := t.host.lastClient()
		if next == t.client || !answer.Cancelled && !errors.Is(err, failure.ErrNobody) {
			return answer, err
		}
		t.client = next
	}
}

// promptTexts say what a question is for, and that a person did not answer it, without its
// text: that may have a device code, and causes are logged and shown to assistants.
var promptTexts = map[api.PromptKind]struct{ wanted, unanswered string }{
	api.PromptPassword:   {"for a password", "no password was entered"},
	api.PromptPassphrase: {"for a passphrase", "no passphrase was entered"},
	api.PromptHostKey:    {"about the host key", "the host key was not accepted"},
	api.PromptConfirm:    {"whether to try again", "you chose not to try again"},
	api.PromptPage:       {"to log in with the browser", "you chose not to log in with the browser"},
	api.PromptQuestion:   {"for a code or another answer", "the question was not answered"},
}

// deny stops the try: only a person can continue.
func (t *attempt) deny(why string, cause error) *api.Error {
	if t.denied == nil {
		t.denied = needsUser(t.host.name, why, cause)
	}
	return t.denied
}

// confirmBan asks the person before a try that may prolong a suspected ban.
func (t *attempt) confirmBan(ctx context.Context) error {
	answer, err := t.Prompt(ctx, api.Prompt{
		Kind: api.PromptConfirm, Echo: true,
		Text: fmt.Sprintf("%s may have banned this address after refused logins; another try can prolong the ban. Try anyway?", t.host.label()),
	})
	if err != nil {
		return err
	}
	if !answer.IsYes() {
		return t.deny("a ban is suspected, and you chose to wait", nil)
	}
	return nil
}
