package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/autostart"
	"tunctl/internal/home"
	"tunctl/internal/term"
	"tunctl/tray"
)

// newAutostart is start at login for this program: for the agent alone if this build has no
// icon, since launchd would start a tray that fails again and again.
func newAutostart() (*autostart.Autostart, error) {
	return autostart.New(tray.Available() != nil)
}

func autostartCommand(t *term.Terminal) *cli.Command {
	with := func(f func(*cli.Context, *autostart.Autostart) error) cli.ActionFunc {
		return func(c *cli.Context) error {
			a, err := newAutostart()
			if err != nil {
				return err
			}
			return f(c, a)
		}
	}
	return &cli.Command{
		Name:  "autostart",
		Usage: "start the agent and the tray when you log in",
		Subcommands: []*cli.Command{
			{Name: "on", Usage: "start the agent and the tray at login", Action: with(func(c *cli.Context, a *autostart.Autostart) error {
				if dir := os.Getenv("TUNCTL_HOME"); dir != "" {
					return api.Errorf(api.CodeUsage, "what starts when you log in would not use TUNCTL_HOME=%s", dir).
						WithHint("unset TUNCTL_HOME; for that folder, start `tunctl agent run` by an entry of your own")
				}
				if err := a.On(c.Context); err != nil {
					return err
				}
				st, _ := a.Status(c.Context) // what was just written
				what, when := "the agent and the tray start", "when you log in"
				if err := tray.Available(); err != nil {
					what = fmt.Sprintf("the agent starts (%v)", err)
				}
				if slices.ContainsFunc(st.Entries, func(e autostart.Entry) bool { return e.Part == autostart.Agent && e.Kind == "xdg" }) {
					when = "when you log in to a desktop: without systemd nothing starts them at another login"
				}
				t.Say("%s %s; `tunctl autostart off` undoes this", what, when)
				return nil
			})},
			{Name: "off", Usage: "start nothing at login", Action: with(func(c *cli.Context, a *autostart.Autostart) error {
				if err := a.Off(c.Context); err != nil {
					return err
				}
				t.Say("nothing starts at login any more; a running agent or tray keeps running")
				return nil
			})},
			{
				Name: "status", Usage: "show what starts at login",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
				Action: with(func(c *cli.Context, a *autostart.Autostart) error {
					st, err := a.Status(c.Context)
					if err != nil {
						return err
					}
					if c.Bool("json") {
						return t.PrintIndentedJSON(st)
					}
					return printAutostart(t, st)
				}),
			},
		},
	}
}

func printAutostart(t *term.Terminal, st autostart.State) error {
	for _, e := range st.Entries {
		state := "off"
		switch {
		case e.Stale:
			state = fmt.Sprintf("starts another program, %s: `tunctl autostart on` fixes this", e.Program)
		case e.Enabled:
			state = "on"
		case e.Installed:
			state = "installed, but disabled"
		}
		if _, err := fmt.Fprintf(t.Out, "%-6s %s (%s)\n", e.Part, state, e.Path); err != nil {
			return err
		}
	}
	return nil
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
