package tray

import (
	"context"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
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
	display  display
	quit     func()
	notifier notifier    // nil: no notifications here
	outbox   chan errand // for the notifier, in order
	acts     chan string // entries chosen elsewhere than in the menu
	doing    sync.WaitGroup
	busy     sync.Map // ids of entries whose action runs
	details  sync.Map // what failed last, as a detailsPage, by the entry's id

	// Owned by the goroutine in Serve.
	view   View
	herald *herald
	shown  Menu
	wished map[string]time.Time // sessions brought up from here, and when
	done   chan string          // ids of entries whose action ended
	asking map[string]*inquiry  // prompts that are put to the person, by id
	turn   chan struct{}        // one dialog at a time
	pages  string               // the directory of the pages that were shown, once there was one
}

func newCompanion(o Options, d display, quit func()) *companion {
	return &companion{
		Options: o, display: d, quit: quit, acts: make(chan string, 16), done: make(chan string, 16),
		view: View{Can: Abilities{
			Autostart: o.Autostart != nil, StartAgent: o.StartAgent != nil, Login: o.Login != nil, Logout: o.Logout != nil,
		}},
		herald: newHerald(), wished: map[string]time.Time{},
		outbox: make(chan errand, outboxSize),
		asking: map[string]*inquiry{}, turn: make(chan struct{}, 1),
	}
}

// Serve works until ctx ends.
func (c *companion) Serve(ctx context.Context) {
	updates := make(chan *api.Event)
	c.doing.Go(func() { c.watch(ctx, updates) })
	c.doing.Go(func() { c.post(ctx) })
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
			c.hear(ctx, e, time.Now())
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
	if c.pages != "" {
		_ = os.RemoveAll(c.pages)
	}
}

// watch passes the agent's events on, and nil when it is gone; it keeps trying.
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
		if ctxtime.Sleep(ctx, wait) != nil {
			return
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
		c.inform(n)
	}
	for _, tag := range c.herald.outdated(c.view.Status) {
		c.send(errand{withdraw: tag})
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

// hear takes what happens once, and is no state: notices and prompts.
func (c *companion) hear(ctx context.Context, e *api.Event, now time.Time) {
	switch {
	case e == nil:
		c.dropPrompts()
	case e.Type == api.EventNotice && e.Notice != nil:
		c.inform(noticeNews(*e.Notice, c.view.Status))
	case e.Type == api.EventPrompt && e.Prompt != nil:
		c.ask(ctx, *e.Prompt)
	case e.Type == api.EventPromptClosed && e.Prompt != nil:
		c.promptClosed(*e.Prompt, now)
	}
}

// inform shows news of a kind that is wanted.
func (c *companion) inform(n news) {
	if c.Notify(n.kind) {
		c.herald.told(n)
		c.announce(n)
	}
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
