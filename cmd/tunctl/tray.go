package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/desktop"
	"tunctl/tray"
)

func trayCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:  "tray",
		Usage: "show the icon with \"Open my notebook\"",
		Description: "The desktop companion: an icon, its menu, notifications. It is a client of the agent; ending it\n" +
			"drops nothing. `tunctl autostart on` starts it at login.",
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			p, err := paths(c)
			if err != nil {
				return err
			}
			cl, _, err := t.connect(ctx, p)
			if err != nil {
				return err
			}
			return tray.Run(ctx, tray.Options{
				Agent:      trayAgent{client: cl},
				Open:       func(ctx context.Context, url string) error { return desktop.OpenPage(ctx, url, desktop.OpenOptions{}) },
				ConfigPath: p.Config,
			})
		},
	}
}

// trayAgent is the agent as the tray sees it.
type trayAgent struct{ client *client.Client }

// Watch implements tray.Agent.
func (a trayAgent) Watch(ctx context.Context, each func(api.Event)) error {
	return a.client.Watch(ctx, api.AnswersNone, each)
}

// Up implements tray.Agent.
func (a trayAgent) Up(ctx context.Context, session string) error {
	_, err := a.client.Up(ctx, session)
	return err
}

// Down implements tray.Agent.
func (a trayAgent) Down(ctx context.Context, session string, cancel bool) error {
	_, err := a.client.Down(ctx, api.DownRequest{Session: session, Cancel: cancel})
	return err
}

// PageURL implements tray.Agent.
func (a trayAgent) PageURL(ctx context.Context, session string) (string, error) {
	return a.client.PageURL(ctx, session)
}
