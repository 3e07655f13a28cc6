package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
	"tunctl/internal/watchui"
)

// watchStatus shows the status at every change: as a screen with keys at a terminal,
// elsewhere it is printed again.
func watchStatus(ctx context.Context, inv *invocation, st api.Status) error {
	if !inv.Bool("json") && term.IsTerminal(inv.Out) && term.IsTerminal(inv.In) && os.Getenv("TERM") != "dumb" {
		return watchOnScreen(ctx, inv, st)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	err := watchui.Follow(ctx, inv.client, rand.Text(), 0, watchui.Viewer{
		Show: func(st api.Status) error { return showStatus(inv, st) },
		Lost: func() { inv.Say(watchui.AgentLost) },
	})
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// watchOnScreen is the interactive screen.
func watchOnScreen(ctx context.Context, inv *invocation, st api.Status) error {
	if _, err := inv.onlyNamed(st); err != nil {
		return err
	}
	if st.Agent == nil { // unless it has just been started, the error says that none is running
		if _, err := inv.client.Status(ctx); err != nil {
			return err
		}
	}
	w := &watchLogin{inv: inv}
	ctx, stop := w.interruptible(ctx)
	defer stop()
	err := watchui.Run(ctx, inv.Terminal, inv.client, watchui.Options{
		Status: st, Session: inv.Args().First(), Waiter: rand.Text(),
		Login: w.login,
	})
	if errors.Is(err, watchui.ErrInterrupted) {
		return exitError(exitInterrupted)
	}
	return err
}

// watchLogin logs in for the screen of `tunctl status --watch`.
type watchLogin struct {
	inv       *invocation
	loggingIn atomic.Bool
}

// interruptible ends ctx at a signal. The Ctrl-C of a login ends only that; elsewhere
// Ctrl-C is a key.
func (w *watchLogin) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt || !w.loggingIn.Load() {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// login asks the questions of a host, with a client of its own: the one that watches cannot ask.
func (w *watchLogin) login(ctx context.Context, host string) error {
	w.loggingIn.Store(true)
	defer w.loggingIn.Store(false)
	ctx, stop := interruptible(ctx)
	defer stop()
	inv := *w.inv
	inv.client = client.New(inv.paths)
	inv.Say("logging in to %s; Ctrl-C goes back", api.HostLabel(host))
	err := inv.login(ctx, host, api.KeepNot)
	if ctx.Err() != nil {
		return errors.New("the login was interrupted")
	}
	return err
}
