package tray

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

// inquiry is a prompt on its way to the person and back.
type inquiry struct {
	prompt api.Prompt
	cancel context.CancelFunc
	// refused says that no answer came of it, and that the person knows.
	refused atomic.Bool
}

// ask puts a prompt of the agent to the person, after those that came before it.
func (c *companion) ask(ctx context.Context, p api.Prompt) {
	asking, cancel := context.WithCancel(ctx)
	q := &inquiry{prompt: p, cancel: cancel}
	c.asking[p.ID] = q
	c.doing.Go(func() {
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
		case <-asking.Done():
			return
		}
		c.interview(asking, q)
	})
}

// interview shows the dialog and passes the answer on. A prompt that was answered
// elsewhere, or is no longer asked, ends ctx and with it the dialog.
func (c *companion) interview(ctx context.Context, q *inquiry) {
	p := q.prompt
	text, err := c.Ask(ctx, questionFor(p))
	if ctx.Err() != nil {
		return
	}
	answer := api.Answer{Text: text}
	if err != nil {
		answer = api.Answer{Cancelled: true}
		q.refused.Store(true)
	}
	if err != nil && !errors.Is(err, desktop.ErrCancelled) {
		c.Log.Warn("could not ask", "host", p.Host, "err", err)
		c.announce(news{
			kind: kindNeedsLogin, title: p.Host + " needs you to log in", urgent: true, name: p.Host,
			body: "Run " + c.Command + " login " + p.Host + " in a terminal.",
		})
	}
	if err := c.Agent.Answer(ctx, p.ID, answer); err != nil && ctx.Err() == nil {
		c.Log.Warn("could not answer", "host", p.Host, "err", err)
	}
}

// promptClosed puts away a dialog that is no longer needed. Whoever would not answer
// it, or was asked at a terminal, knows what comes of that.
func (c *companion) promptClosed(p api.Prompt, now time.Time) {
	q, ours := c.asking[p.ID]
	if ours {
		q.cancel()
		delete(c.asking, p.ID)
	}
	if !ours || q.refused.Load() {
		c.herald.attend(p.Host, now)
	}
}

// dropPrompts puts all dialogs away: the agent that asked is gone.
func (c *companion) dropPrompts() {
	for id, q := range c.asking {
		q.cancel()
		delete(c.asking, id)
	}
}

// questionFor is a prompt in the words of a window, which has nothing around it to
// tell what it is about.
func questionFor(p api.Prompt) desktop.Question {
	q := desktop.Question{Title: "Log in to " + p.Host, Kind: desktop.AskSecret, Yes: "Yes, go on", No: "No"}
	if p.Echo {
		q.Kind = desktop.AskLine
	}
	text := strings.TrimSpace(p.Text)
	switch p.Kind {
	case api.PromptHostKey:
		q.Kind = desktop.AskChoice
		q.Title, q.Yes, q.No = "Is this really "+p.Host+"?", "Yes, trust it", "No, stop"
		text, _, _ = strings.Cut(text, p.Fingerprint)
		text = strings.TrimSpace(text) + "\n\n" + p.Fingerprint +
			"\n\nCompare it with what your computing centre publishes. If it differs, somebody may be in between: stop."
	case api.PromptConfirm:
		q.Kind = desktop.AskChoice
	case api.PromptPassphrase:
		q.Title = "Unlock your key for " + p.Host
	case api.PromptPassword, api.PromptQuestion:
		if about := strings.TrimSpace(p.Instruction); about != "" {
			text = about + "\n\n" + text
		}
	}
	q.Text = text
	return q
}
