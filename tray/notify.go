package tray

import (
	"context"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

// outboxSize is how many notifications may wait for a slow desktop.
const outboxSize = 32

// notifier shows notifications and takes them away.
type notifier interface {
	Notify(ctx context.Context, note desktop.Note) error
	Withdraw(ctx context.Context, tag string) error
}

// errand is one thing for the notifier to do: show note, or withdraw a tag.
type errand struct {
	note     desktop.Note
	withdraw string
}

// buttons are what the verbs of notifications are called there.
var buttons = map[string]string{
	verbOpen: "Open", verbLog: api.MenuLog, verbUp: "Start again", verbExtend: "Extend by 1 h", verbLogin: "Log in…",
	verbAsk: "Open a terminal…", verbTrouble: api.MenuTrouble, verbDetails: "Show details", verbSettings: "Edit config…",
	verbSetup: "Set up…",
}

// announce shows a notification with what can be done about it.
func (c *companion) announce(n news) {
	note := desktop.Note{Tag: n.tag(), Title: n.title, Body: n.body, Urgent: n.urgent, Instead: n.instead}
	for _, verb := range n.verbs {
		if verb == verbLogin && c.Login == nil {
			continue
		}
		id := verb + ":" + n.name
		note.Actions = append(note.Actions, desktop.Action{Label: buttons[verb], Do: func() {
			select {
			case c.acts <- id:
			default: // nobody presses sixteen buttons at once
			}
		}})
	}
	c.send(errand{note: note})
}

// send leaves an errand to the notifier. What does not fit is dropped: a desktop that
// shows nothing must not hold up the menu.
func (c *companion) send(e errand) {
	if c.notifier == nil {
		if e.withdraw == "" {
			c.Log.Info("nowhere to show a notification", "title", e.note.Title)
		}
		return
	}
	select {
	case c.outbox <- e:
	default:
		c.Log.Warn("the desktop does not take notifications", "title", e.note.Title)
	}
}

// post runs errands, one after another, so that what is withdrawn was shown before.
func (c *companion) post(ctx context.Context) {
	for {
		select {
		case e := <-c.outbox:
			if err := c.run(ctx, e); err != nil && ctx.Err() == nil {
				c.Log.Warn("a notification failed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *companion) run(ctx context.Context, e errand) error {
	if e.withdraw != "" {
		return c.notifier.Withdraw(ctx, e.withdraw)
	}
	return c.notifier.Notify(ctx, e.note)
}
