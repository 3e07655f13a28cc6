package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/autostart"
	"tunctl/internal/client"
	"tunctl/internal/dashboard"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

func dashboardCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "dashboard",
		Usage: "show sessions, jobs, use, logs and history in the browser",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Aliases: []string{"no-open"}, Usage: "print the address, which works once"},
			&cli.BoolFlag{Name: "serve", Hidden: true, Usage: "be the process that serves the page"},
		},
		Action: invoke(t, atMost(0, "no arguments", showDashboard)),
	}
}

func showDashboard(ctx context.Context, inv *invocation) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if inv.Bool("serve") {
		return dashboard.Run(ctx, dashboard.Options{
			Paths: inv.paths, Version: version(), Client: inv.client, LoginWindow: loginInWindow, Desktop: action.OwnDesktop,
		})
	}
	if _, err := inv.ensureAgent(ctx); err != nil {
		return err
	}
	process, err := dashboard.Ensure(ctx, inv.paths, dashboardLauncher(inv.paths))
	if err != nil {
		return err
	}
	var link dashboard.Link
	if inv.Bool("print") {
		link, err = process.Link(ctx)
	} else {
		link, err = process.Open(ctx, desktop.Open)
	}
	switch {
	case ctx.Err() != nil && !inv.Bool("print"): // Ctrl-C
		return nil
	case errors.Is(err, desktop.ErrNoBrowser):
		inv.Say("no browser found; open this address yourself, it works once:\n\n  %s\n", link.URL)
	case err != nil:
		return action.OpenError(err, "tunctl dashboard")
	case inv.Bool("print"):
		fmt.Fprintln(inv.Out, link.URL)
	default:
		inv.Say("%s opened the dashboard", inv.Paint(term.Green, "✓"))
	}
	if link.Bookmark != "" {
		inv.Say("to bookmark: %s", link.Bookmark)
	}
	return nil
}

// dashboardLauncher starts the dashboard's process.
func dashboardLauncher(p home.Paths) client.Launcher {
	return client.Detached(p, "--config", p.Config, "dashboard", "--serve")
}

// loginInWindow logs in to a host in a terminal of its own.
func loginInWindow(ctx context.Context, host string) error {
	err := desktop.Terminal(ctx, "login", host)
	if errors.Is(err, desktop.ErrUnavailable) {
		return api.Errorf(api.CodeNeedsPerson, "no terminal window can be opened to log in to %s", host).Because(err).
			WithHint("run `tunctl login %s` in a terminal", host)
	}
	return err
}

// viewerAgent is the agent as the tray sees it.
type viewerAgent struct {
	*client.Client
	paths home.Paths
}

// start starts the agent if none is running.
func (a viewerAgent) start(ctx context.Context) error {
	_, err := a.Ensure(ctx, launcher(a.paths))
	return err
}

// openDashboard opens a page of the dashboard, and starts what that needs.
func (a viewerAgent) openDashboard(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return err
	}
	process, err := dashboard.Ensure(ctx, a.paths, dashboardLauncher(a.paths))
	if err == nil {
		_, err = process.Open(ctx, desktop.Open)
	}
	return err
}

// logIn logs in to a host: in dialogs, or in a terminal window where there are none.
func (a viewerAgent) logIn(ctx context.Context, host string) error {
	if !desktop.CanAsk() {
		return loginInWindow(ctx, host)
	}
	_, err := a.Login(ctx, host)
	return err
}

// restartCrashed starts an agent that crashed, if start at login is on and the system does
// not do that.
func (a viewerAgent) restartCrashed(auto *autostart.Autostart) func(context.Context) error {
	return func(ctx context.Context) error {
		if last, _ := a.paths.Running(); last.PID == 0 {
			return nil // it was stopped: an agent that ends in order leaves no trace
		}
		alone, err := auto.Unsupervised(ctx)
		if err != nil || !alone {
			return err
		}
		return a.start(ctx)
	}
}

// Watch implements tray.Agent. It gets prompts only if dialogs can be shown: without, the agent
// says what to do instead.
func (a viewerAgent) Watch(ctx context.Context, each func(api.Event)) error {
	answers := api.AnswersNone
	if desktop.CanAsk() {
		answers = api.AnswersDesktop
	}
	return a.Client.Watch(ctx, answers, "", each)
}
