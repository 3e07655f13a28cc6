package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/autostart"
	"tunctl/internal/client"
	"tunctl/internal/ctxtime"
	"tunctl/internal/dashboard"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

// promptsRetry is how long after the end of an agent its successor is looked for.
const promptsRetry = 2 * time.Second

func dashboardCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "dashboard",
		Usage: "show sessions, jobs, use, logs and history in the browser",
		Description: "The page is live, and has a button for everything: open, start, extend, disconnect, end the job.\n" +
			"It is served on this computer, for you alone, while it is open: the command ends a minute after\n" +
			"you closed the page, or with Ctrl-C. Sessions and jobs are not affected.\n\n" +
			"Each address of the page works once. If a host asks for a password or a code, you answer in this\n" +
			"terminal.\n\n" +
			"  tunctl dashboard\n" +
			"  tunctl dashboard --print",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "print", Usage: "print the address, which works once, instead of opening it"},
		},
		Action: invoke(t, showDashboard),
	}
}

func showDashboard(ctx context.Context, inv *invocation) error {
	if inv.NArg() > 0 {
		return usagef("unexpected argument %q: dashboard takes no arguments", inv.Args().First())
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if _, err := inv.ensureAgent(ctx); err != nil {
		return err
	}
	asks := ""
	if inv.Interactive {
		asks = "in the terminal that runs tunctl dashboard"
	}
	server, err := dashboard.Listen(ctx, viewerAgent{inv.client, inv.paths}.dashboardOptions(asks))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	var asking sync.WaitGroup
	asking.Go(func() { inv.answerPrompts(ctx) })
	err = inv.offerDashboard(ctx, server)
	if err != nil {
		end()
	}
	err = errors.Join(err, <-served)
	if ctx.Err() == nil {
		inv.Say("the page was closed: the dashboard has ended")
	}
	end()
	asking.Wait()
	return err
}

// offerDashboard opens the page, or prints its address.
func (inv *invocation) offerDashboard(ctx context.Context, server *dashboard.Server) error {
	if inv.Bool("print") {
		fmt.Fprintln(inv.Out, server.Link())
		return nil
	}
	err := server.OpenPage(ctx)
	if ctx.Err() != nil { // Ctrl-C
		return nil //nolint:nilerr // nothing failed
	}
	switch {
	case errors.Is(err, desktop.ErrNoBrowser):
		inv.Say("no browser found; open this address yourself, it works once:\n\n  %s\n", server.Link())
	case err != nil:
		return action.OpenError(err, "tunctl dashboard")
	default:
		inv.Say("%s opened the dashboard", inv.Paint(term.Green, "✓"))
	}
	inv.Say("it ends %s after you closed the page, or with Ctrl-C", api.DurationText(dashboard.Linger))
	return nil
}

// dashboardOptions are those of a dashboard. Where its questions can be answered, asks says so.
func (a viewerAgent) dashboardOptions(asks string) dashboard.Options {
	o := dashboard.Options{Client: a.Client, Desktop: action.OwnDesktop, StartAgent: a.start, Login: loginInWindow, Prompts: "in the terminal window that opens"}
	if asks != "" {
		o.Prompts = asks
		o.Login = func(ctx context.Context, host string) error {
			_, err := a.Login(ctx, host)
			return err
		}
	}
	return o
}

// answerPrompts puts the questions that the dashboard's actions cause to the person at this
// terminal, if there is one, until ctx ends.
func (inv *invocation) answerPrompts(ctx context.Context) {
	if !inv.Interactive {
		return
	}
	q := &promptReader{term: inv.Terminal, client: inv.client}
	defer q.wait()
	for ctx.Err() == nil {
		_ = inv.client.Watch(ctx, api.AnswersTerminal, "", func(e api.Event) { q.handle(ctx, e) }) // the page says when the agent is gone
		_ = ctxtime.Sleep(ctx, promptsRetry)                                                       // the loop looks at the context
	}
}

// loginInWindow logs in to a host in a terminal of its own.
func loginInWindow(ctx context.Context, host string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = desktop.Terminal(ctx, []string{self, "login", host})
	if errors.Is(err, desktop.ErrUnavailable) {
		return api.Errorf(api.CodeNeedsPerson, "no terminal window can be opened to log in to %s", host).Because(err).
			WithHint("run `tunctl login %s` in a terminal", host)
	}
	return err
}

// trayDashboard opens dashboards for the tray, each of which ends after its page was closed.
type trayDashboard struct {
	ctx     context.Context // of the tray
	options dashboard.Options
	serving sync.WaitGroup
}

func (d *trayDashboard) open(ctx context.Context) error {
	server, err := dashboard.Listen(d.ctx, d.options)
	if err != nil {
		return err
	}
	d.serving.Go(func() { _ = server.Serve(d.ctx) }) // a page that is cut off says so
	return server.OpenPage(ctx)
}

// viewerAgent is the agent as the tray and the dashboard see it.
type viewerAgent struct {
	*client.Client
	paths home.Paths
}

// start starts the agent if none is running.
func (a viewerAgent) start(ctx context.Context) error {
	_, err := a.Ensure(ctx, launcher(a.paths))
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
