package watchui

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/desktop"
	"tunctl/internal/show"
)

// verb is what a task does.
type verb string

// The verbs.
const (
	openVerb   verb = "open"
	upVerb     verb = "up"
	downVerb   verb = "down"
	extendVerb verb = "extend"
	cancelVerb verb = "cancel"
	copyVerb   verb = "copy"
)

// task is what the user asked for by a key.
type task struct {
	verb    verb
	session string // "" for a job that belongs to none
	host    string
	job     api.Job // of a cancelVerb without a session
	jobs    string  // the names of what a cancelVerb ends
	typed   string  // of an extendVerb: how much longer
}

// result is what to say after a task. Clipboard, unless empty, is a text that the
// terminal should put on its clipboard.
type result struct{ text, clipboard string }

// act does what a key asked for, and sends what came of it.
func (f *feed) act(t task) {
	f.running.Go(func() {
		res, err := f.do(f.ctx, t)
		f.send(actedMsg{res, err})
	})
}

func (f *feed) do(ctx context.Context, t task) (result, error) {
	var text string
	var err error
	switch t.verb {
	case openVerb:
		text, err = action.OwnDesktop.OpenPage(ctx, f.client, action.Page{Session: t.session})
		text = cmp.Or(text, "opened "+t.session)
	case upVerb:
		text, err = f.up(ctx, t.session)
	case downVerb:
		text, err = f.down(ctx, api.DownRequest{Session: t.session})
	case extendVerb:
		var by time.Duration
		if by, err = action.ParseSpan(t.typed); err == nil {
			text, err = action.Extend(ctx, f.client, api.ExtendRequest{Session: t.session, Seconds: int64(by.Seconds())})
		}
	case cancelVerb:
		text, err = f.cancel(ctx, t)
	case copyVerb:
		return f.copyAddress(ctx, t.session)
	}
	return result{text: text}, err
}

// up starts a session. The screen is what waits for it.
func (f *feed) up(ctx context.Context, session string) (string, error) {
	res, err := f.client.Up(ctx, api.UpRequest{Session: session, Waiter: f.options.Waiter})
	switch {
	case err != nil:
		return "", err
	case len(res.Session.Candidates) > 0:
		return "", api.Errorf(api.CodeFailed, "several jobs of the name of %s are running", session).
			WithHint("`tunctl up %s` in another terminal lets you choose one", session)
	case res.Session.AwaitsSubmission():
		return "starting " + session + "; its job may be submitted while this screen is open", nil
	}
	return fmt.Sprintf("%s is %s%s", session, res.Session.State, show.Because(res.Session.Cause)), nil
}

func (f *feed) down(ctx context.Context, req api.DownRequest) (string, error) {
	before, _ := f.client.Status(ctx) // down itself says what is wrong
	res, err := f.client.Down(ctx, req)
	return strings.Join(action.DownTexts(res, before, time.Now()), "\n"), err
}

// cancel ends a job. That of a session takes the session down too.
func (f *feed) cancel(ctx context.Context, t task) (string, error) {
	if t.session != "" {
		return f.down(ctx, api.DownRequest{Session: t.session, Cancel: true})
	}
	_, err := f.client.Cancel(ctx, t.host, t.job.Ref())
	return action.CancelledText(t.job), err
}

// copyAddress copies the whole address of a page, or has the terminal do so where there is
// no desktop, as over ssh.
func (f *feed) copyAddress(ctx context.Context, session string) (result, error) {
	var res result
	var err error
	clipboard := action.Desktop{Copy: func(ctx context.Context, address string) error {
		if desktop.Copy(ctx, address) != nil {
			res.clipboard = address
		}
		return nil
	}}
	res.text, err = clipboard.CopyAddress(ctx, f.client, action.Page{Session: session})
	if res.clipboard != "" {
		res.text = fmt.Sprintf("asked the terminal to copy the address of %s; if it does not, `tunctl open %s --print` shows it", session, session)
	}
	return res, err
}
