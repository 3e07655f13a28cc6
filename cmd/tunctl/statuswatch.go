package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

// watchTick is how often a live table is redrawn: minutes and bytes change without an
// event.
const watchTick = time.Second

// watchStatus shows the status at every change: on a terminal the table is redrawn in
// place until q or Ctrl-C, elsewhere it is printed again.
func watchStatus(c *cli.Context, t *term.Terminal) error {
	ctx, stop := interruptible(c.Context)
	defer stop()
	p, err := paths(c)
	if err != nil {
		return err
	}
	w := &statusWatch{c: c, term: t, client: client.New(p), live: term.IsTerminal(t.Out) && !c.Bool("json")}
	err = w.run(ctx)
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

type statusWatch struct {
	c      *cli.Context
	term   *term.Terminal
	client *client.Client
	live   bool
	last   string // what is on the screen
}

func (w *statusWatch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan struct{}, 1)
	gone := make(chan error, 1)
	go func() { gone <- w.client.Watch(ctx, api.AnswersNone, func(e api.Event) { w.changed(e, events) }) }()
	defer func() { cancel(); <-gone }()
	var keys <-chan byte
	if w.live {
		fmt.Fprint(w.term.Out, "\x1b[?1049h\x1b[?25l") // a screen of its own, without a cursor
		defer fmt.Fprint(w.term.Out, "\x1b[?25h\x1b[?1049l")
		var restore func()
		keys, restore = w.term.ReadKeys()
		defer restore()
	}
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for {
		var beat <-chan time.Time
		if w.live {
			beat = tick.C
		}
		select {
		case <-events:
		case <-beat:
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

// changed notes that there is something new to show.
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

// left is the error of a stream that the agent has ended.
func (w *statusWatch) left(err error) error {
	if err != nil {
		return err
	}
	return &api.Error{Code: api.CodeAgent, Message: "the agent has stopped", Hint: "`tunctl agent start` starts it again"}
}

// show prints the status; on a terminal in place, if it is not what is shown already.
func (w *statusWatch) show(ctx context.Context) error {
	st, err := w.client.Status(ctx)
	if err != nil {
		return nil //nolint:nilerr // the stream's own end tells
	}
	if !w.live {
		return showStatus(w.c, w.term, st)
	}
	if st, err = onlyAsked(w.c, st); err != nil {
		return err
	}
	now := time.Now()
	text := statusTable(term.LayoutFor(w.term.Out), st, now) + "\n" + now.Format("15:04:05") + "  q quits; sessions stay up\n"
	if text == w.last {
		return nil
	}
	w.last = text
	_, err = fmt.Fprintf(w.term.Out, "\x1b[H%s\x1b[J", strings.ReplaceAll(text, "\n", "\x1b[K\r\n")) // a raw terminal returns only when told
	return err
}
