package tray

import (
	"context"

	"tunctl/internal/desktop"
)

// outboxSize is how many notifications may wait for a slow desktop.
const outboxSize = 32

// notifier shows and withdraws notifications.
type notifier interface {
	Notify(ctx context.Context, note desktop.Note) error
	Withdraw(ctx context.Context, tag string) error
}

// notification is a request to the notifier: show note, or withdraw a tag.
type notification struct {
	note     desktop.Note
	withdraw string
}

// announce shows news, with buttons for what a person can do about it.
func (c *companion) announce(n news) {
	note := desktop.Note{Tag: n.tag(), Title: n.title, Body: n.body, Urgent: n.urgent, Instead: n.instead}
	for _, verb := range n.verbs {
		id := verb + ":" + n.name
		if verb == verbEnd {
			id += "/" + n.job
		}
		note.Actions = append(note.Actions, desktop.Action{Label: verbs[verb].button, Do: func() {
			select {
			case c.acts <- id:
			default: // more clicks than anybody can make
			}
		}})
	}
	c.enqueue(notification{note: note})
}

// enqueue leaves a notification to the notifier. It drops what does not fit: a slow
// desktop must not block the menu.
func (c *companion) enqueue(n notification) {
	if c.notifier == nil {
		if n.withdraw == "" {
			c.Log.Info("nowhere to show a notification", "title", n.note.Title)
		}
		return
	}
	select {
	case c.outbox <- n:
	default:
		c.Log.Warn("the desktop does not take notifications", "title", n.note.Title)
	}
}

// deliverNotifications delivers one after the other, so that what is withdrawn was
// shown before.
func (c *companion) deliverNotifications(ctx context.Context) {
	for {
		select {
		case n := <-c.outbox:
			if err := c.deliver(ctx, n); err != nil && ctx.Err() == nil {
				c.Log.Warn("a notification failed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *companion) deliver(ctx context.Context, n notification) error {
	if n.withdraw != "" {
		return c.notifier.Withdraw(ctx, n.withdraw)
	}
	return c.notifier.Notify(ctx, n.note)
}
