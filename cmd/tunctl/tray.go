package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"gopkg.in/natefinch/lumberjack.v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/autostart"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/tray"
)

func trayCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:  "tray",
		Usage: "show the tray icon with \"Open my notebook\"",
		Description: "An icon with a menu, notifications, and a dialog when a host asks for a password or a one-time code.\n" +
			"The tray is only a client of the agent: quitting it disconnects nothing.\n\n" +
			"`tunctl autostart on` starts it at login. Only one tray runs at a time.",
		Action: invoke(t, showTray),
	}
}

// showTray shows the tray until it is quit.
func showTray(ctx context.Context, inv *invocation) error {
	if inv.NArg() > 0 {
		return usagef("unexpected argument %q: tray takes no arguments", inv.Args().First())
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	p := inv.paths
	term.CloseOwnConsole()
	if err := home.MakePrivate(p.State); err != nil {
		return err
	}
	file := &lumberjack.Logger{Filename: filepath.Join(p.State, "tray.log"), MaxSize: 1, MaxBackups: 1}
	defer func() { _ = file.Close() }()
	log := slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: logLevel()}))
	updateAutostart(ctx, p, log)

	a := viewerAgent{inv.client, p}
	asks := ""
	if desktop.CanAsk() {
		asks = "in the dialog on your desktop"
	}
	page := &trayDashboard{ctx: ctx, options: a.dashboardOptions(asks)}
	defer page.serving.Wait()
	defer stop() // ends the dashboard
	o := tray.Options{
		Agent: a, StartAgent: a.start, Login: page.options.Login, Logout: a.Logout, Dashboard: page.open,
		ConfigPath: p.Config, Notify: notifyFilter(p, log),
		Tell: func(message string) { inv.Say("tunctl: %s", message) },
		Log:  log,
	}
	if p.Moved {
		o.Instance = p.State
	}
	if auto, err := newAutostart(); err == nil {
		o.Autostart = auto
		if !p.Moved {
			o.RestartAgent = a.restartCrashed(auto)
		}
	}
	return tray.Run(ctx, o)
}

// updateAutostart updates start at login after the program was moved, except with a home of
// its own.
func updateAutostart(ctx context.Context, p home.Paths, log *slog.Logger) {
	if p.Moved {
		return
	}
	auto, err := newAutostart()
	if err == nil {
		err = auto.Follow(ctx)
	}
	if err != nil {
		log.Warn("cannot update start at login", "err", err)
	}
}

// notifyFilter reports whether the config wants a kind of notification. It reads the file each
// time, so that a change takes effect; a file with errors changes nothing.
func notifyFilter(p home.Paths, log *slog.Logger) func(kind string) bool {
	var last configs.Notify
	return func(kind string) bool {
		cfg, err := configs.Load(p.Config)
		switch {
		case err == nil:
			last = cfg.Notify
		case !errors.Is(err, os.ErrNotExist):
			log.Warn("cannot read the config", "err", err)
		}
		if kind == "" { // a kind that cannot be chosen
			return !last.Off
		}
		return last.Allows(kind)
	}
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
