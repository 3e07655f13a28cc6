package tray

import (
	"cmp"
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

	withdrawTimeout = 2 * time.Second // at the end
)

// display shows menus and reports clicks.
type display interface {
	Show(menu)
	Clicks() <-chan choice
}

// controller follows the agent, updates the display, sends notifications, and does what
// is clicked.
type controller struct {
	Options
	desk     desk
	display  display
	quit     func()
	notifier notifier     // nil: this desktop has no notifications
	outbox   chan request // for the notifier, in order
	acts     chan choice  // entries chosen elsewhere than in the menu
	running  sync.WaitGroup

	delivered map[string]bool // the tags of what the notifier has shown; of the goroutine that delivers

	// Owned by the goroutine in Serve.
	view       view
	tracker    *tracker
	shown      menu
	busy       map[choice]bool        // entries whose action runs
	details    map[string]detailsPage // what failed last, by the entry
	requested  map[string]time.Time   // sessions started from the menu, and when
	done       chan result
	prompts    []*openPrompt // in order
	dialog     *openPrompt   // the one whose dialog is open
	dialogDone chan bool     // its dialog ended, and whether it needs no other
	pages      string        // the directory of the pages that were shown, if any
}

// result is how the action of an entry ended.
type result struct {
	id  choice
	err error
}

func newController(o Options, d display, quit func()) *controller {
	return &controller{
		Options: o, desk: *cmp.Or(o.desk, &ownDesk), display: d, quit: quit, acts: make(chan choice, 16), done: make(chan result, 16),
		view:    view{CanAutostart: o.Autostart != nil},
		tracker: newTracker(), requested: map[string]time.Time{}, busy: map[choice]bool{}, details: map[string]detailsPage{},
		outbox: make(chan request, outboxSize), delivered: map[string]bool{},
		dialogDone: make(chan bool, 1),
	}
}

// Serve works until ctx ends.
func (c *controller) Serve(ctx context.Context) {
	updates := make(chan *api.Event)
	c.running.Go(func() { c.watch(ctx, updates) })
	c.running.Go(func() { c.deliverNotifications(ctx) })
	defer c.cleanUp()
	tick := time.Tick(redrawEvery)
	c.readAutostart(ctx)
	c.redraw(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-updates:
			c.handleEvent(ctx, e, time.Now())
			c.announceChanges(ctx, time.Now())
		case id := <-c.display.Clicks():
			c.act(ctx, id)
		case id := <-c.acts:
			c.act(ctx, id)
		case done := <-c.dialogDone:
			c.dialogEnded(done)
		case r := <-c.done:
			delete(c.busy, r.id)
			if r.err != nil {
				c.reportFailure(r.id, r.err)
			} else if _, failed := c.details[r.id.String()]; failed { // before
				delete(c.details, r.id.String())
				c.withdraw(notification{name: r.id.String()}.tag())
			}
			if r.id.verb == verbAutostart {
				c.readAutostart(ctx)
			}
		case <-tick:
			c.announceChanges(ctx, time.Now())
		}
		c.redraw(time.Now())
	}
}

// cleanUp waits for actions, which end with the context, and removes their files and the
// notifications, whose buttons would do nothing now.
func (c *controller) cleanUp() {
	c.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	for tag := range c.delivered {
		if c.notifier == nil || c.notifier.Withdraw(ctx, tag) != nil {
			break
		}
	}
	if c.pages != "" {
		_ = os.RemoveAll(c.pages)
	}
}

// watch sends the agent's events, and nil whenever it is gone, until ctx ends.
func (c *controller) watch(ctx context.Context, updates chan<- *api.Event) {
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
		if c.RestartAgent != nil {
			if err := c.RestartAgent(ctx); err != nil {
				c.Log.Warn("cannot restart the agent after a crash", "err", err)
			}
		}
		wait = min(2*wait, retryMost)
	}
}

// handleEvent updates the view with an event, shows notices and asks prompts; nil says that the agent is gone.
func (c *controller) handleEvent(ctx context.Context, e *api.Event, now time.Time) {
	st := &c.view.Status
	switch {
	case e == nil:
		c.view.Reached = false
		c.dropPrompts()
	case e.Type == api.EventStatus && e.Status != nil:
		c.view.Reached = true
		*st = *e.Status
	case e.Type == api.EventSession && e.Session != nil:
		st.Sessions = put(st.Sessions, *e.Session, func(s api.Session) string { return s.Name })
	case e.Type == api.EventSessionGone && e.Session != nil:
		st.Sessions = slices.DeleteFunc(st.Sessions, func(s api.Session) bool { return s.Name == e.Session.Name })
	case e.Type == api.EventHost && e.Host != nil:
		st.Hosts = put(st.Hosts, *e.Host, func(h api.Host) string { return h.Alias })
	case e.Type == api.EventNotice && e.Notice != nil:
		c.announceIfWanted(noticeNotification(*e.Notice, *st, now))
	case e.Type == api.EventPrompt && e.Prompt != nil:
		c.queuePrompt(ctx, *e.Prompt)
	case e.Type == api.EventPromptClosed && e.Prompt != nil:
		c.promptClosed(*e.Prompt, now)
	}
}

// put replaces the element that has the name of x, or appends x.
func put[T any](list []T, x T, name func(T) string) []T {
	if i := slices.IndexFunc(list, func(y T) bool { return name(y) == name(x) }); i >= 0 {
		list[i] = x
		return list
	}
	return append(list, x)
}

// redraw shows the menu if it changed.
func (c *controller) redraw(now time.Time) {
	c.view.Now, c.view.Asking = now, c.asking()
	if m := menuFor(c.view); !reflect.DeepEqual(m, c.shown) {
		c.shown = m
		c.display.Show(m)
	}
}

// announceChanges shows what is new in the status. The page of a session that was just
// started from the menu opens automatically: the user waits for it.
func (c *controller) announceChanges(ctx context.Context, now time.Time) {
	if !c.view.Reached {
		return
	}
	for _, n := range c.tracker.update(c.view.Status, c.requested, now) {
		c.announceIfWanted(n)
	}
	for _, tag := range c.tracker.outdated(c.view.Status) {
		c.withdraw(tag)
	}
	for _, s := range c.view.Status.Sessions {
		at, requested := c.requested[s.Name]
		if !requested || s.State != api.SessionReady {
			continue
		}
		delete(c.requested, s.Name)
		if openable(s) && now.Sub(at) < autoOpenWithin {
			c.act(ctx, choice{verb: verbOpen, name: s.Name})
		}
	}
}

// announceIfWanted shows a notification of a kind that the config wants.
func (c *controller) announceIfWanted(n notification) {
	if c.Notify(n.kind) {
		c.tracker.shown(n)
		c.announce(n)
	}
}

func (c *controller) readAutostart(ctx context.Context) {
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
