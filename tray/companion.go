package tray

import (
	"context"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/desktop"
)

const (
	redrawEvery = 30 * time.Second // "12 min left" goes stale without an event
	retryFirst  = time.Second
	retryMost   = 5 * time.Second
)

// display shows menus and tells of clicks.
type display interface {
	Show(Menu)
	Clicks() <-chan string // ids of entries
}

// companion follows the agent, keeps the display and the notifications in step
// with it, and does what is clicked.
type companion struct {
	Options
	display display
	quit    func()
	notify  func(ctx context.Context, n desktop.Note) error // nil: no notifications here
	acts    chan string                                     // entries chosen elsewhere than in the menu
	doing   sync.WaitGroup
	busy    sync.Map // ids of entries whose action runs

	// Owned by the goroutine in Serve.
	view   View
	herald *herald
	shown  Menu
	wished map[string]time.Time // sessions brought up from here, and when
	done   chan string          // ids of entries whose action ended
	help   string               // the folder of the help page, once it was wanted
}

func newCompanion(o Options, d display, quit func()) *companion {
	return &companion{
		Options: o, display: d, quit: quit, acts: make(chan string, 16), done: make(chan string, 16),
		view: View{Can: Abilities{
			Autostart: o.Autostart != nil, StartAgent: o.StartAgent != nil, Login: o.Login != nil, Logout: o.Logout != nil,
		}},
		herald: newHerald(), wished: map[string]time.Time{},
	}
}

// Serve works until ctx ends.
func (c *companion) Serve(ctx context.Context) {
	updates := make(chan *api.Event)
	c.doing.Go(func() { c.watch(ctx, updates) })
	defer c.tidy()
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	c.readAutostart(ctx)
	c.redraw(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-updates:
			c.apply(e)
			c.tell(ctx, time.Now())
		case id := <-c.display.Clicks():
			c.act(ctx, id)
		case id := <-c.acts:
			c.act(ctx, id)
		case id := <-c.done:
			if id == verbAutostart {
				c.readAutostart(ctx)
			}
		case <-tick.C:
			c.tell(ctx, time.Now())
		}
		c.redraw(time.Now())
	}
}

// tidy waits for actions, which ended with the context, and removes what they left.
func (c *companion) tidy() {
	c.doing.Wait()
	if c.help != "" {
		_ = os.RemoveAll(c.help)
	}
}

// watch passes the agent's events on, and nil when it is gone; it goes on trying.
func (c *companion) watch(ctx context.Context, updates chan<- *api.Event) {
	wait := retryFirst
	send := func(e *api.Event) {
		select {
		case updates <- e:
		case <-ctx.Done():
		}
	}
	for {
		err := c.Agent.Watch(ctx, func(e api.Event) {
			wait = retryFirst
			send(&e)
		})
		c.Log.Debug("the agent is gone", "err", err)
		send(nil)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMost)
	}
}

// apply takes one change into the view; nil says that the agent is gone.
func (c *companion) apply(e *api.Event) {
	st := &c.view.Status
	switch {
	case e == nil:
		c.view.Reached = false
	case e.Type == api.EventStatus && e.Status != nil:
		c.view.Reached = true
		c.view.Status = *e.Status
	case e.Type == api.EventSession && e.Session != nil:
		same := func(s api.Session) bool { return s.Name == e.Session.Name }
		st.Sessions = put(st.Sessions, same, *e.Session)
	case e.Type == api.EventSessionGone && e.Session != nil:
		st.Sessions = slices.DeleteFunc(st.Sessions, func(s api.Session) bool { return s.Name == e.Session.Name })
	case e.Type == api.EventHost && e.Host != nil:
		st.Hosts = put(st.Hosts, func(h api.Host) bool { return h.Alias == e.Host.Alias }, *e.Host)
	}
}

// put replaces the one that is the same, or appends.
func put[T any](list []T, same func(T) bool, x T) []T {
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = x
		return list
	}
	return append(list, x)
}

// redraw shows the menu if it changed.
func (c *companion) redraw(now time.Time) {
	c.view.Now = now
	if m := MenuFor(c.view); !reflect.DeepEqual(m, c.shown) {
		c.shown = m
		c.display.Show(m)
	}
}

// tell passes on what is news. A page that was asked for here a moment ago opens
// by itself: the person who clicked is waiting for it.
func (c *companion) tell(ctx context.Context, now time.Time) {
	if !c.view.Reached {
		return
	}
	for _, n := range c.herald.hear(c.view.Status, c.wished, now) {
		if c.Notify(n.kind) {
			c.announce(ctx, n)
		}
	}
	for _, s := range c.view.Status.Sessions {
		at, wished := c.wished[s.Name]
		if !wished || s.State != api.SessionReady {
			continue
		}
		delete(c.wished, s.Name)
		if openable(s) && now.Sub(at) < wishLife {
			c.act(ctx, verbOpen+":"+s.Name)
		}
	}
}

// announce shows a notification with its action, if we can do it.
func (c *companion) announce(ctx context.Context, n news) {
	if c.notify == nil {
		c.Log.Info("nowhere to show a notification", "title", n.title)
		return
	}
	note := desktop.Note{Title: n.title, Body: n.body, Urgent: n.urgent}
	labels := map[string]string{verbOpen: "Open", verbLog: "Show log"}
	if c.Login != nil {
		labels[verbLogin] = "Log in…"
	} else if n.verb == verbLogin {
		note.Body = "Run " + c.Command + " login " + n.name
	}
	if label := labels[n.verb]; label != "" {
		id := n.verb + ":" + n.name
		note.Actions = []desktop.Action{{Label: label, Do: func() {
			select {
			case c.acts <- id:
			default: // nobody presses sixteen buttons at once
			}
		}}}
	}
	c.doing.Go(func() {
		if err := c.notify(ctx, note); err != nil && ctx.Err() == nil {
			c.Log.Warn("could not show a notification", "err", err)
		}
	})
}

func (c *companion) readAutostart(ctx context.Context) {
	if c.Autostart == nil {
		return
	}
	on, err := c.Autostart.IsOn(ctx)
	if err != nil {
		c.Log.Warn("could not read start at login", "err", err)
		return
	}
	c.view.Autostart = on
}
