//go:build cgo || !darwin

package tray

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"sync"

	"fyne.io/systray"

	"tunctl/internal/desktop"
	"tunctl/internal/latest"
)

var errDesktopGone = errors.New("the desktop session ended")

// Available returns why this build cannot show the icon: it can.
func Available() error { return nil }

// Run shows the tray until ctx ends, the user quits it, or the desktop ends.
// Call it on the main goroutine, since macOS draws nowhere else, and once in a process,
// since the library has one icon. If another tray already runs on this desktop,
// Run reports that with Tell and returns nil.
func Run(ctx context.Context, o Options) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	inst, err := acquireInstance(ctx, o.Instance)
	if err != nil {
		return err
	}
	if inst == nil {
		o.Tell("The tray is already running on this desktop.")
		return nil
	}
	defer inst.release()

	p := newPanel(o.Log)
	c := newController(o, p, quit)
	if notifier, err := desktop.NewNotifier(ctx); err != nil {
		o.Log.Info("no notifications on this desktop", "err", err)
	} else {
		defer notifier.Close()
		c.notifier = notifier
	}
	c.acts <- choice{verb: verbStartAgent}
	var serving sync.WaitGroup
	serving.Go(func() { c.Serve(ctx) })
	err = p.Serve(ctx, inst, o.Tell)
	quit()
	serving.Wait()
	return err
}

// panel is the display: a thin layer over fyne.io/systray that works around its
// faults. The library keeps its state in package variables, so a process has one.
type panel struct {
	log    *slog.Logger
	clicks chan choice
	menus  chan menu // the newest menu that is not drawn yet

	// Owned by whoever draws: onReady, then the drawing goroutine.
	drawn      menu
	rows       []*row
	stop       chan struct{} // ends the forwarders of rows
	forwarders sync.WaitGroup
}

// row is a drawn entry.
type row struct {
	item     *systray.MenuItem // nil for a separator
	children []*row
}

func newPanel(logger *slog.Logger) *panel {
	return &panel{log: logger, clicks: make(chan choice, 16), menus: make(chan menu, 1), stop: make(chan struct{})}
}

// Show draws m, instead of any menu that still waits to be drawn.
func (p *panel) Show(m menu) { latest.Offer(p.menus, m) }

// Clicks has the entries that are clicked.
func (p *panel) Clicks() <-chan choice { return p.clicks }

// Serve shows the icon as soon as there is a panel, until ctx or the desktop ends.
func (p *panel) Serve(ctx context.Context, inst *instance, tell func(string)) (err error) {
	err = inst.awaitPanel(ctx, tell)
	if ctx.Err() != nil {
		return nil // the connection ends with ctx, which is not the desktop's end
	}
	if err != nil {
		return err
	}
	defer log.SetOutput(log.Writer())
	log.SetOutput(slog.NewLogLogger(p.log.Handler(), slog.LevelDebug).Writer()) // the library talks to the standard logger

	var first menu
	select {
	case first = <-p.menus:
	case <-ctx.Done():
		return nil
	}
	if readsIconOnce { // before the icon is registered; other systems have nothing to set yet
		systray.SetTitle("tunctl")
		systray.SetIcon(iconBytes(first.Icon))
		systray.SetTooltip(first.Tooltip)
	}
	drawing, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() {
		select {
		case <-drawing.Done():
		case <-inst.desktopGone():
		}
		cancel()
		systray.Quit()
	})
	defer func() {
		// At its end, the library panics if the bus ended while it was starting.
		if r := recover(); r != nil {
			p.log.Warn("the tray library gave up", "panic", r)
		}
		cancel() // the library may end by itself: Windows closes its window
		helpers.Wait()
		close(p.stop) // only now does nobody draw any more
		p.forwarders.Wait()
		if ctx.Err() == nil {
			err = errDesktopGone
		}
	}()
	systray.Run(func() {
		// The library answers no panel until this returns.
		p.draw(first)
		helpers.Go(func() { p.redraw(drawing) })
	}, func() {})
	return nil
}

// redraw draws every menu that comes.
func (p *panel) redraw(ctx context.Context) {
	for {
		select {
		case m := <-p.menus:
			p.draw(m)
		case <-ctx.Done():
			return
		}
	}
}

// draw changes what is shown as little as it can.
func (p *panel) draw(m menu) {
	defer func() {
		// SetIcon panics when the bus ends meanwhile; Serve notices that itself.
		if r := recover(); r != nil {
			p.log.Warn("could not draw the menu", "panic", r)
		}
	}()
	if m.Icon != p.drawn.Icon {
		systray.SetIcon(iconBytes(m.Icon))
	}
	if m.Tooltip != p.drawn.Tooltip {
		systray.SetTooltip(m.Tooltip)
	}
	if sameShape(p.drawn.Items, m.Items) {
		change(p.rows, p.drawn.Items, m.Items)
	} else {
		p.rebuild(m.Items)
	}
	p.drawn = m
}

// rebuild replaces all rows. Only a changed config or choice of pages needs it: all
// other changes keep the menu's shape.
func (p *panel) rebuild(items []menuItem) {
	close(p.stop)
	p.stop = make(chan struct{})
	detachClicks(p.rows)
	systray.ResetMenu()
	p.rows = p.add(nil, items)
}

// detachClicks keeps the library from closing the channels of removed rows: a click that
// it is just delivering would panic on a closed one, and is dropped on none.
func detachClicks(rows []*row) {
	for _, r := range rows {
		if r.item != nil {
			r.item.ClickedCh = nil
		}
		detachClicks(r.children)
	}
}

// add draws items below parent, or at the top where parent is nil.
func (p *panel) add(parent *systray.MenuItem, items []menuItem) []*row {
	rows := make([]*row, len(items))
	for i, it := range items {
		rows[i] = &row{}
		if it.Separator {
			systray.AddSeparator() // only the top has some
			continue
		}
		item := newItem(parent, it)
		if !it.Enabled {
			item.Disable()
		}
		if it.Hidden {
			item.Hide()
		}
		rows[i].item = item
		rows[i].children = p.add(item, it.Children)
		if len(it.Children) == 0 {
			p.forward(item.ClickedCh, it.ID, p.stop)
		}
	}
	return rows
}

func newItem(parent *systray.MenuItem, it menuItem) *systray.MenuItem {
	title := label(it.Title)
	switch {
	case parent != nil:
		return parent.AddSubMenuItem(title, "")
	case it.Checkable:
		return systray.AddMenuItemCheckbox(title, "", it.Checked)
	}
	return systray.AddMenuItem(title, "")
}

// forward receives a row's clicks at all times: the library drops those that
// nobody is receiving.
func (p *panel) forward(clicked <-chan struct{}, id choice, stop <-chan struct{}) {
	p.forwarders.Go(func() {
		for {
			select {
			case <-clicked:
			case <-stop:
				return
			}
			select {
			case p.clicks <- id:
			case <-stop:
				return
			}
		}
	})
}

// sameShape reports whether two menus differ only in what rows can change in place.
func sameShape(a, b []menuItem) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Separator != b[i].Separator || a[i].Checkable != b[i].Checkable ||
			!sameShape(a[i].Children, b[i].Children) {
			return false
		}
	}
	return true
}

// change turns rows from old to items in place, which have the same shape.
func change(rows []*row, old, items []menuItem) {
	for i, it := range items {
		r := rows[i]
		if r.item == nil {
			continue
		}
		if it.Title != old[i].Title {
			r.item.SetTitle(label(it.Title))
		}
		switch {
		case it.Enabled && !old[i].Enabled:
			r.item.Enable()
		case !it.Enabled && old[i].Enabled:
			r.item.Disable()
		}
		switch {
		case it.Checked && !old[i].Checked:
			r.item.Check()
		case !it.Checked && old[i].Checked:
			r.item.Uncheck()
		}
		if it.Hidden && (!old[i].Hidden || it.Title != old[i].Title) { // on Windows, a new title shows it
			r.item.Hide()
		} else if !it.Hidden && old[i].Hidden {
			r.item.Show()
		}
		change(r.children, old[i].Children, it.Children)
	}
}
