package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/show"
	"tunctl/internal/term"
	"tunctl/internal/watchui"
)

func statusCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show what is up, where, and until when",
		ArgsUsage: "[SESSION]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Usage: "show every change; on a terminal, ? lists the keys"},
			&cli.BoolFlag{Name: "refresh", Usage: "ask the schedulers of connected hosts first"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invoke(t, atMost(1, "one session", func(ctx context.Context, inv *invocation) error {
			st, err := inv.status(ctx)
			switch {
			case err != nil:
				return err
			case inv.Bool("watch"):
				return watchStatus(ctx, inv, st)
			}
			sayAbsence(ctx, inv, st)
			return showStatus(inv, inv.withUsage(ctx, st))
		})),
	}
}

// longAbsence is how long nobody looked before status says first what happened meanwhile.
const longAbsence = 4 * time.Hour

// sayAbsence says at a terminal what happened since the user last looked there, if that is long ago.
func sayAbsence(ctx context.Context, inv *invocation, st api.Status) {
	if inv.Bool("json") || !term.IsTerminal(inv.Out) {
		return
	}
	file, now := inv.paths.Looked(), time.Now()
	last, err := os.Stat(file)
	if os.Chtimes(file, now, now) != nil {
		_ = os.WriteFile(file, nil, 0o600) // the next look says more than happened since this one
	}
	if err != nil || now.Sub(last.ModTime()) < longAbsence {
		return
	}
	history, err := inv.client.History(ctx)
	if err != nil {
		return // there is no agent: nothing is known of what happened
	}
	if text := show.Absence(st, history.Runs, last.ModTime(), now); text != "" {
		fmt.Fprintf(inv.Out, "%s\n\n", term.WrapMessage(text, inv.Width()))
	}
}

func showStatus(inv *invocation, st api.Status) error {
	st, err := inv.onlyNamed(st)
	switch {
	case err != nil:
		return err
	case inv.Bool("json") && inv.NArg() > 0:
		return inv.PrintIndentedJSON(st.Sessions[0])
	case inv.Bool("json"):
		return inv.PrintIndentedJSON(st)
	}
	return printStatus(inv.Terminal, st, inv.NArg() > 0)
}

func printStatus(t *term.Terminal, st api.Status, named bool) error {
	switch {
	case st.Agent == nil && len(st.Sessions) > 0:
		t.Say("%s", strings.TrimSuffix(noAgent+"; "+runningDemo(), "; "))
	case st.Agent == nil:
		t.Say("the agent is not running: nothing is up")
	default:
		warnAboutVersion(t, st)
		warnAboutPause(t, st)
	}
	warnAboutConfig(t, st)
	warnAboutOutdated(t, st.Hosts)
	if len(st.Sessions) == 0 {
		t.Say("no sessions yet: `tunctl init` adds one; %s", demoHint())
		return nil
	}
	if _, err := fmt.Fprint(t.Out, show.Status(term.LayoutFor(t.Out), st, named, time.Now())); err != nil {
		return err
	}
	if !named && slices.ContainsFunc(st.Sessions, show.IsCut) {
		t.Say("`tunctl status SESSION` shows all about one that failed")
	}
	return nil
}

const (
	// usageWait is how long a status waits for a measurement.
	usageWait = 3 * time.Second
	// usageFresh is how old one may be.
	usageFresh = 15 * time.Second
)

// withUsage adds what the job of the session uses that the argument names, if there is one.
// A script may ask for it often, so that JSON has what is known, unless it is to be new.
func (inv *invocation) withUsage(ctx context.Context, st api.Status) api.Status {
	usage := inv.measure
	if inv.Bool("json") && !inv.Bool("refresh") {
		usage = inv.lastUsage
	}
	for i, s := range st.Sessions {
		if s.Name == inv.Args().First() && st.Agent != nil {
			st.Sessions[i].Usage = usage(ctx, s)
		}
	}
	return st
}

// lastUsage is the newest that is known without measuring; nil if nothing is.
func (inv *invocation) lastUsage(ctx context.Context, s api.Session) (last *api.Usage) {
	_ = inv.client.Usage(ctx, s.Name, true, func(u api.Usage) { last = &u }) // without an agent nothing is known
	return last
}

// measure is what the job of a session uses now; nil if it does not run, or the agent
// cannot tell in time.
func (inv *invocation) measure(ctx context.Context, s api.Session) *api.Usage {
	if !s.RunsJob() || s.State != api.SessionReady && s.State != api.SessionStarting {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usageWait)
	defer cancel()
	inv.Draw("measuring…")
	defer inv.Draw("")
	var found *api.Usage
	_ = inv.client.Usage(ctx, s.Name, false, func(u api.Usage) { // without an agent nothing is measured
		if time.Since(u.Time) > usageFresh || u.Source == "" && u.Problem == "" {
			return
		}
		found = &u
		if u.CPUPercent != nil || u.Problem != "" {
			cancel()
		}
	})
	return found
}

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
		Lost: func() { inv.Say(watchui.AgentLost) }, Silent: func(since time.Time) { inv.Say("%s", watchui.AgentSilent(since)) },
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
