package tray

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/words"
)

// openPrompt is a prompt that waits for its answer.
type openPrompt struct {
	prompt api.Prompt
	why    string          // why it is asked now
	ctx    context.Context // ends when the agent no longer asks
	cancel context.CancelFunc
	hide   context.CancelFunc // closes the dialog
	done   bool               // it needs no other dialog
	// refused says that the user declined to answer.
	refused atomic.Bool
}

func (q *openPrompt) isLogin() bool { return q.prompt.Kind != api.PromptApproval }

// who is the host whose login asks; "" for an assistant.
func (q *openPrompt) who() string {
	if q.isLogin() {
		return q.prompt.Host
	}
	return ""
}

// queuePrompt shows a prompt of the agent in a dialog, after those that came before.
func (c *controller) queuePrompt(ctx context.Context, p api.Prompt) {
	asking, cancel := context.WithCancel(ctx)
	c.prompts = append(c.prompts, &openPrompt{prompt: p, why: whyNow(p.Host, c.view.Status), ctx: asking, cancel: cancel})
	c.showNext()
}

// waiting are the prompts that wait for an answer, in order.
func (c *controller) waiting() []*openPrompt {
	return slices.DeleteFunc(slices.Clone(c.prompts), func(q *openPrompt) bool { return q.done || q.ctx.Err() != nil })
}

// showNext shows the next dialog, one at a time. Logins come first, since a code is valid
// for a short time: an assistant's question makes room for them and is shown again.
func (c *controller) showNext() {
	waiting := c.waiting()
	if len(waiting) == 0 {
		return
	}
	q := waiting[max(0, slices.IndexFunc(waiting, (*openPrompt).isLogin))]
	if c.dialog != nil {
		if q.isLogin() && !c.dialog.isLogin() {
			c.dialog.hide()
		}
		return // the end of the dialog leads here again
	}
	shown, hide := context.WithCancel(q.ctx)
	q.hide, c.dialog = hide, q
	c.running.Go(func() {
		defer hide()
		c.dialogDone <- c.showDialog(shown, q)
	})
}

// asking lists who waits for the answer to a dialog: hosts, or "" for an assistant.
func (c *controller) asking() []string {
	var names []string
	for _, q := range c.waiting() {
		at := len(names)
		if q == c.dialog { // it comes first
			at = 0
		}
		names = slices.Insert(names, at, q.who())
	}
	return names
}

func (c *controller) dialogEnded(done bool) {
	c.dialog.done = done
	c.dialog = nil
	c.showNext()
}

// showDialog shows the dialog and sends the answer to the agent. If the prompt is
// answered elsewhere, no longer asked, or makes room for another, ctx ends and with it the
// dialog. It reports whether the dialog needs not be shown again.
func (c *controller) showDialog(ctx context.Context, q *openPrompt) (done bool) {
	p := q.prompt
	if len(p.Links) > 0 {
		c.offerPage(ctx, q)
	}
	text, err := c.desk.ask(ctx, questionFor(p, q.why))
	if ctx.Err() != nil && (err != nil || q.ctx.Err() != nil) {
		return false
	}
	ctx = q.ctx
	failed := err != nil && !errors.Is(err, desktop.ErrCancelled)
	if failed {
		c.Log.Warn("could not ask", "host", p.Host, "err", err)
	}
	answer := api.Answer{Text: text}
	if err != nil {
		answer = api.Answer{Cancelled: true}
		q.refused.Store(true)
	}
	switch {
	case failed && p.Kind == api.PromptApproval: // nobody has said no, and a terminal may be asking, too
		c.announce(notification{
			icon: iconNeedsYou, title: "An assistant asks for your approval", urgent: true,
			body: noWindow(err), instead: "`tunctl mcp approve` asks in a terminal.",
		})
		return true
	case failed:
		c.announce(notification{
			kind: kindNeedsLogin, icon: iconNeedsYou, title: headline("Log in to ", api.HostLabel(p.Host), ""), urgent: true, name: p.Host,
			body: noWindow(err), verbs: []verb{verbAsk}, instead: "Log in from a terminal.",
		})
	}
	if err := c.Agent.Answer(ctx, p.ID, answer); err != nil && ctx.Err() == nil {
		c.Log.Warn("could not answer", "host", p.Host, "err", err)
	}
	return true
}

// noWindow says that no dialog could be shown, and why.
func noWindow(err error) string {
	return noteBody("no window could be opened to ask you: " + err.Error())
}

// offerPage opens the page of a login, if it may be opened and the user agrees, or shows
// the address for copying. The question follows in any case.
func (c *controller) offerPage(ctx context.Context, q *openPrompt) {
	p := q.prompt
	ask := desktop.Question{Title: "Log in to " + api.HostLabel(p.Host), Kind: desktop.AskChoice, Yes: "Open the page", No: "Do not open it"}
	if p.LoginPage == "" {
		ask.Kind, ask.Value = desktop.AskLine, p.Links[0]
		ask.Text = serverText(p) + "\n\nThe login has a link. If you trust it, copy it into your browser:\n\n" + strings.Join(p.Links, "\n\n")
	} else {
		ask.Text = serverText(p) + "\n\nThe login continues in the browser. Open this page?\n\n" + p.LoginPage
	}
	ask.Text = q.why + "\n\n" + strings.TrimSpace(ask.Text)
	_, err := c.desk.ask(ctx, ask)
	if err != nil || p.LoginPage == "" {
		return
	}
	if err := c.desk.Open(ctx, p.LoginPage); err != nil && ctx.Err() == nil {
		c.Log.Warn("could not open the login page", "host", p.Host, "err", err)
	}
}

// serverText is what a server sent with a prompt. The text of other kinds is tunctl's.
func serverText(p api.Prompt) string {
	text := strings.TrimSpace(p.Instruction)
	if p.Kind == api.PromptQuestion {
		text += "\n\n" + strings.TrimSpace(p.Text)
	}
	return text
}

// promptClosed closes a dialog that is no longer needed. The user who declined to
// answer, or was asked in a terminal, knows what follows from that.
func (c *controller) promptClosed(p api.Prompt, now time.Time) {
	i := slices.IndexFunc(c.prompts, func(q *openPrompt) bool { return q.prompt.ID == p.ID })
	known := i < 0
	if !known {
		known = c.prompts[i].refused.Load()
		c.prompts[i].cancel()
		c.prompts = slices.Delete(c.prompts, i, i+1)
	}
	if p.Kind != api.PromptApproval && known {
		c.tracker.attended[p.Host] = now
	}
}

// dropPrompts closes all dialogs: the agent that asked is gone.
func (c *controller) dropPrompts() {
	for _, q := range c.prompts {
		q.cancel()
	}
	c.prompts = nil
}

// whyNow says what a login to a host is for.
func whyNow(host string, st api.Status) string {
	names := func(states ...api.SessionState) (list []string) {
		for _, s := range st.Sessions {
			if s.Host == host && slices.Contains(states, s.State) {
				list = append(list, s.Name)
			}
		}
		return list
	}
	if lost := names(api.SessionReconnecting); lost != nil {
		return "The connection to " + host + " was lost. Log in to reconnect " + listed(lost) + "."
	}
	if waiting := names(api.SessionNeedsLogin, api.SessionConnecting); waiting != nil {
		return "tunctl is connecting to " + host + " for " + listed(waiting) + "."
	}
	return "tunctl is connecting to " + host + "."
}

// listed joins names as in a sentence.
func listed(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// questionFor is the dialog of a prompt. A window has no context around it, so the
// question says which host, why now, and whether the last answer was wrong.
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
	case api.PromptApproval:
		return desktop.Question{Title: "An assistant asks", Kind: desktop.AskChoice, Yes: "Allow", No: "Do not allow", Text: text}
	case api.PromptPage:
		q.Kind, q.Yes, q.No = desktop.AskChoice, "Done", "Stop"
		text = "Have you logged in there?"
	case api.PromptPassphrase:
		q.Title = "Unlock your key for " + host
	case api.PromptPassword, api.PromptQuestion:
		if len(p.Links) > 0 { // the window before has shown the server's text
			if p.Kind == api.PromptQuestion {
				text = "Your answer to the login. If it only asks you to press Enter, leave this empty:"
			}
			break
		}
		if about := strings.TrimSpace(p.Instruction); about != "" {
			text = about + "\n\n" + text
		}
	}
	if p.Retry != "" {
		why = words.Sentence(p.Retry) + "\n" + why
	}
	q.Text = why + "\n\n" + text
	return q
}

// hostKeyText puts the fingerprint on a line of its own, for comparison.
func hostKeyText(text, fingerprint string) string {
	before, after, _ := strings.Cut(strings.TrimSuffix(text, " Trust it?"), fingerprint)
	return strings.TrimSpace(before) + "\n\n" + fingerprint + "\n\n" + strings.TrimSpace(strings.TrimPrefix(after, "."))
}
