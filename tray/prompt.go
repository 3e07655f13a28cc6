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
	why    string // it is asked now
	cancel context.CancelFunc
	// refused says that no answer came of it, and that the person knows.
	refused atomic.Bool
}

// ask puts a prompt of the agent to the person, after those that came before it.
func (c *companion) ask(ctx context.Context, p api.Prompt) {
	asking, cancel := context.WithCancel(ctx)
	q := &inquiry{prompt: p, why: whyNow(p.Host, c.view.Status), cancel: cancel}
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
	text, err := c.Ask(ctx, questionFor(p, q.why))
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
			kind: kindNeedsLogin, title: headline("Log in to ", api.HostLabel(p.Host), ""), urgent: true, name: p.Host,
			body:  "No window could be opened to ask you. A terminal can.",
			verbs: []string{verbAsk}, instead: "Log in from a terminal.",
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

// whyNow says what a login to a host is for.
func whyNow(host string, st api.Status) string {
	var lost, waiting []string
	for _, s := range st.Sessions {
		switch {
		case s.Host != host:
		case s.State == api.SessionReconnecting:
			lost = append(lost, s.Name)
		case s.State == api.SessionNeedsLogin, s.State == api.SessionConnecting:
			waiting = append(waiting, s.Name)
		}
	}
	switch {
	case len(lost) > 0:
		return "The connection to " + host + " was lost. Log in to reconnect " + listed(lost) + "."
	case len(waiting) > 0:
		return "tunctl is connecting to " + host + " for " + listed(waiting) + "."
	}
	return "tunctl is connecting to " + host + "."
}

// listed writes names as a sentence does.
func listed(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// questionFor is a prompt in the words of a window, which has nothing around it to
// tell what it is about: which host, why now, and whether the last answer was wrong.
func questionFor(p api.Prompt, why string) desktop.Question {
	host := api.HostLabel(p.Host)
	q := desktop.Question{Title: "Log in to " + host, Kind: desktop.AskSecret, Yes: "Yes", No: "No"}
	if p.Echo {
		q.Kind = desktop.AskLine
	}
	text := strings.TrimSpace(p.Text)
	switch p.Kind {
	case api.PromptHostKey:
		q.Kind = desktop.AskChoice
		q.Title, q.Yes, q.No = "Is this really "+host+"?", "Yes, trust it", "No, stop"
		text = hostKeyText(text, p.Fingerprint)
	case api.PromptConfirm:
		q.Kind = desktop.AskChoice
	case api.PromptPassphrase:
		q.Title = "Unlock your key for " + host
	case api.PromptPassword, api.PromptQuestion:
		if about := strings.TrimSpace(p.Instruction); about != "" {
			text = about + "\n\n" + text
		}
	}
	if p.Retry != "" {
		why = asSentence(p.Retry) + "\n" + why
	}
	q.Text = why + "\n\n" + text
	return q
}

// hostKeyText sets the fingerprint apart, so that it can be compared.
func hostKeyText(text, fingerprint string) string {
	before, after, _ := strings.Cut(strings.TrimSuffix(text, " Trust it?"), fingerprint)
	text = strings.TrimSpace(before) + "\n\n" + fingerprint + "\n\n"
	if after = strings.TrimSpace(strings.TrimPrefix(after, ".")); after != "" {
		text += after + "\n\n"
	}
	return text + "Compare the fingerprint with the one that your computing centre publishes. If they differ, stop: " +
		"another machine may be posing as this host."
}
