package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// watchTick is how often the table is redrawn: minutes and bytes change without an event.
const watchTick = time.Second

// watchStatus shows the status at every change: on a terminal the table is redrawn in
// place until q or Ctrl-C, elsewhere it is printed again.
func watchStatus(ctx context.Context, inv *invocation) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	w := &statusWatch{invocation: inv, inPlace: term.IsTerminal(inv.Out) && !inv.Bool("json")}
	err := w.loop(ctx)
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

// statusWatch is one `tunctl status --watch`.
type statusWatch struct {
	*invocation
	inPlace bool   // the table is redrawn on a screen of its own
	last    string // the text on the screen
}

// loop shows the status until q, Ctrl-C or the end of the agent.
func (w *statusWatch) loop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan struct{}, 1)
	gone := make(chan error, 1)
	go func() {
		gone <- w.client.WatchWaiting(ctx, api.AnswersNone, rand.Text(), func(e api.Event) { w.changed(e, events) })
	}()
	defer func() { cancel(); <-gone }()
	var keys <-chan byte
	var tick <-chan time.Time
	if w.inPlace {
		fmt.Fprint(w.Out, "\x1b[?1049h\x1b[?25l") // a screen of its own, without a cursor
		defer fmt.Fprint(w.Out, "\x1b[?25h\x1b[?1049l")
		var restore func()
		keys, restore = w.ReadKeys()
		defer restore()
		ticker := time.NewTicker(watchTick)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-events:
		case <-tick:
		case key := <-keys:
			switch key {
			case 'q', 'Q':
				return nil
			case term.CtrlC:
				return silentError(exitInterrupted)
			}
		case err := <-gone:
			gone <- nil
			return w.left(err)
		}
		if err := w.show(ctx); err != nil {
			return err
		}
	}
}

// changed notes that the status may have changed.
func (w *statusWatch) changed(e api.Event, events chan<- struct{}) {
	switch e.Type {
	case api.EventStatus, api.EventSession, api.EventSessionGone, api.EventHost:
	default:
		return
	}
	select {
	case events <- struct{}{}:
	default:
	}
}

// left is the error when the agent has ended the stream.
func (w *statusWatch) left(err error) error {
	if err != nil {
		return err
	}
	return &api.Error{Code: api.CodeAgent, Message: "the agent has stopped", Hint: "`tunctl agent start` starts it again"}
}

// show prints the status; in place only if it differs from the screen.
func (w *statusWatch) show(ctx context.Context) error {
	st, err := w.client.Status(ctx)
	if err != nil {
		return nil //nolint:nilerr // the end of the stream says why
	}
	if !w.inPlace {
		return showStatus(w.invocation, st)
	}
	if st, err = w.onlyNamed(st); err != nil {
		return err
	}
	now := time.Now()
	text := statusTable(term.LayoutFor(w.Out), st, now) + "\n" + now.Format("15:04:05") + "  q quits; sessions stay up\n"
	if text == w.last {
		return nil
	}
	w.last = text
	_, err = fmt.Fprintf(w.Out, "\x1b[H%s\x1b[J", strings.ReplaceAll(text, "\n", "\x1b[K\r\n")) // a raw terminal needs the carriage returns
	return err
}
