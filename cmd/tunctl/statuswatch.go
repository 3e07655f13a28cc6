package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/show"
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
	err := watchui.Follow(ctx, inv.client, rand.Text(), 0, func(st api.Status) error { return showStatus(inv, st) }, nil)
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
	w := &watchActions{inv: inv, waiter: rand.Text()}
	ctx, stop := w.interruptible(ctx)
	defer stop()
	err := watchui.Run(ctx, inv.Terminal, inv.client, watchui.Options{
		Status: st, Session: inv.Args().First(), Waiter: w.waiter,
		Act: w.act, Login: w.login,
	})
	if errors.Is(err, watchui.ErrInterrupted) {
		return exitError(exitInterrupted)
	}
	return err
}

// watchActions does what the keys of the screen ask for, as the commands do.
type watchActions struct {
	inv       *invocation
	waiter    string
	loggingIn atomic.Bool
}

// interruptible ends ctx at a signal. The Ctrl-C of a login ends only that; elsewhere
// Ctrl-C is a key.
func (w *watchActions) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
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

func (w *watchActions) act(ctx context.Context, a watchui.Action) (watchui.Result, error) {
	var text string
	var err error
	switch a.Verb {
	case watchui.Open:
		text, err = action.OwnDesktop.OpenPage(ctx, w.inv.client, action.Page{Session: a.Session})
		text = cmp.Or(text, "opened "+a.Session)
	case watchui.Up:
		text, err = w.up(ctx, a.Session)
	case watchui.Down:
		text, err = w.down(ctx, api.DownRequest{Session: a.Session})
	case watchui.Extend:
		var by time.Duration
		if by, err = parseSpan(a.Typed); err == nil {
			text, err = action.Extend(ctx, w.inv.client, a.Session, by)
		}
	case watchui.Cancel:
		text, err = w.cancel(ctx, a)
	case watchui.Copy:
		return w.copyAddress(ctx, a.Session)
	}
	return watchui.Result{Text: text}, err
}

// up starts a session. The screen is what waits for it.
func (w *watchActions) up(ctx context.Context, session string) (string, error) {
	res, err := w.inv.client.Up(ctx, api.UpRequest{Session: session, Waiter: w.waiter})
	switch {
	case err != nil:
		return "", err
	case len(res.Session.Candidates) > 0:
		return "", api.Errorf(api.CodeFailed, "several jobs of the name of %s are running", session).
			WithHint("`tunctl up %s` in another terminal lets you choose one", session)
	case unsubmitted(res.Session):
		return "starting " + session + "; its job may be submitted while this screen is open", nil
	}
	return fmt.Sprintf("%s is %s%s", session, res.Session.State, show.Because(res.Session.Cause)), nil
}

func (w *watchActions) down(ctx context.Context, req api.DownRequest) (string, error) {
	before, _ := w.inv.client.Status(ctx) // down itself says what is wrong
	res, err := w.inv.client.Down(ctx, req)
	var lines []string
	for _, s := range res.Sessions {
		lines = append(lines, downText(s, before, time.Now())...)
	}
	return strings.Join(lines, "\n"), err
}

// cancel ends a job. That of a session takes the session down too.
func (w *watchActions) cancel(ctx context.Context, a watchui.Action) (string, error) {
	if a.Session != "" {
		return w.down(ctx, api.DownRequest{Session: a.Session, Cancel: true})
	}
	_, err := w.inv.client.Cancel(ctx, a.Host, a.Job.Ref())
	return fmt.Sprintf("job %s was cancelled", a.Job.ID), err
}

// copyAddress copies the whole address of a page, or has the terminal do so where there is
// no desktop, as over ssh.
func (w *watchActions) copyAddress(ctx context.Context, session string) (watchui.Result, error) {
	var res watchui.Result
	var err error
	clipboard := action.Desktop{Copy: func(ctx context.Context, address string) error {
		if desktop.Copy(ctx, address) != nil {
			res.Clipboard = address
		}
		return nil
	}}
	res.Text, err = clipboard.CopyAddress(ctx, w.inv.client, action.Page{Session: session})
	if res.Clipboard != "" {
		res.Text = fmt.Sprintf("asked the terminal to copy the address of %s; if it does not, `tunctl open %s --print` shows it", session, session)
	}
	return res, err
}

// login asks the questions of a host, with a client of its own: the one that watches cannot ask.
func (w *watchActions) login(ctx context.Context, host string) error {
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
