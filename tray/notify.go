package tray

import (
	"cmp"
	"context"
	"strings"

	"tunctl/internal/desktop"
)

// outboxSize is how many notifications may wait for a slow desktop.
const outboxSize = 32

// notifier shows and withdraws notifications.
type notifier interface {
	Notify(ctx context.Context, note desktop.Note) error
	Withdraw(ctx context.Context, tag string) error
}

// request has the notifier show or withdraw a notification.
type request func(ctx context.Context) error

// announce shows a notification, with buttons for what the user can do about it.
func (c *controller) announce(n notification) {
	// Few desktops show buttons at once, and some show none: the body says what to do, too.
	note := desktop.Note{Tag: n.tag(), Title: n.title, Body: strings.TrimSpace(n.body + " " + n.instead), Urgent: n.urgent}
	note.Icon = noteIcon(cmp.Or(n.icon, iconIdle))
	for _, v := range n.verbs {
		id := choice{verb: v, name: n.name}
		if v == verbEnd {
			id.part = n.job
		}
		note.Actions = append(note.Actions, desktop.Action{Label: v.button, Do: func() {
			select {
			case c.acts <- id:
			default: // more clicks than anybody can make
			}
		}})
	}
	c.enqueue(func(ctx context.Context) error { return c.notifier.Notify(ctx, note) })
}

// withdraw removes the notification of a tag.
func (c *controller) withdraw(tag string) {
	c.enqueue(func(ctx context.Context) error { return c.notifier.Withdraw(ctx, tag) })
}

// enqueue leaves a request to the notifier. It drops what does not fit: a slow desktop
// must not block the menu.
func (c *controller) enqueue(r request) {
	if c.notifier == nil {
		return
	}
	select {
	case c.outbox <- r:
	default:
		c.Log.Warn("the desktop does not take notifications")
	}
}

// deliverNotifications delivers one after the other, so that what is withdrawn was
// shown before.
func (c *controller) deliverNotifications(ctx context.Context) {
	for {
		select {
		case deliver := <-c.outbox:
			if err := deliver(ctx); err != nil && ctx.Err() == nil {
				c.Log.Warn("a notification failed", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
