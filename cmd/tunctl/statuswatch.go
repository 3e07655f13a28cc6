package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

// watchTick is how often a live table is redrawn: minutes and bytes change without an
// event.
const watchTick = time.Second

// watchStatus shows the status at every change: on a terminal the table is redrawn in
// place until q or Ctrl-C, elsewhere it is printed again.
func watchStatus(c *cli.Context, t *terminal) error {
	ctx, stop := interruptible(c.Context)
	defer stop()
	p, err := paths(c)
	if err != nil {
		return err
	}
	w := &statusWatch{c: c, term: t, client: client.New(p), live: isTerminal(t.out) && !c.Bool("json")}
	err = w.run(ctx)
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

type statusWatch struct {
	c      *cli.Context
	term   *terminal
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
		fmt.Fprint(w.term.out, "\x1b[?1049h\x1b[?25l") // a screen of its own, without a cursor
		defer fmt.Fprint(w.term.out, "\x1b[?25h\x1b[?1049l")
		var restore func()
		keys, restore = w.readKeys()
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
			case ctrlC:
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

// ctrlC is what a terminal in raw mode sends instead of an interrupt.
const ctrlC = 3

// readKeys sends each key as it is pressed, without Enter; none where nobody types.
func (w *statusWatch) readKeys() (keys <-chan byte, restore func()) {
	if !isTerminal(w.term.in) {
		return nil, func() {}
	}
	before, err := term.MakeRaw(fd(w.term.in))
	if err != nil {
		return nil, func() {}
	}
	pressed := make(chan byte)
	go func() { // a read of standard input cannot be cancelled: it ends with the program
		key := make([]byte, 1)
		for {
			if _, err := w.term.in.Read(key); err != nil {
				return
			}
			pressed <- key[0]
		}
	}()
	return pressed, func() { _ = term.Restore(fd(w.term.in), before) }
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
	text := newPaper(w.term.out).status(st, now) + "\n" + now.Format("15:04:05") + "  q quits; sessions stay up\n"
	if text == w.last {
		return nil
	}
	w.last = text
	_, err = fmt.Fprintf(w.term.out, "\x1b[H%s\x1b[J", strings.ReplaceAll(text, "\n", "\x1b[K\r\n")) // a raw terminal returns only when told
	return err
}
