package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/home"
	"tunctl/internal/logfile"
	"tunctl/internal/term"
	"tunctl/tray"
)

func trayCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:   "tray",
		Usage:  "show the tray icon, whose menu opens, starts and ends sessions",
		Action: invoke(t, atMost(0, "no arguments", showTray)),
	}
}

// showTray shows the tray until it is quit.
func showTray(ctx context.Context, inv *invocation) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	p := inv.paths
	term.CloseOwnConsole()
	if err := home.MakePrivate(p.State); err != nil {
		return err
	}
	file := &logfile.File{Path: filepath.Join(p.State, "tray.log"), Max: 1 << 20, Old: 1}
	defer func() { _ = file.Close() }()
	log := slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: logLevel()}))
	updateAutostart(ctx, p, log)

	a := viewerAgent{inv.client, p}
	o := tray.Options{
		Agent: a, StartAgent: a.start, Login: a.logIn, Logout: a.Logout, Dashboard: a.openDashboard,
		ConfigPath: p.Config, Notify: notifyFilter(p, log),
		Tell: func(message string) { inv.Say("tunctl: %s", message) },
		Log:  log,
	}
	if p.Moved {
		o.Instance = p.State
	}
	if auto, err := newAutostart(); err == nil && !p.Moved { // it starts the default home's
		o.Autostart, o.RestartAgent = auto, a.restartCrashed(auto)
	}
	return tray.Run(ctx, o)
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
