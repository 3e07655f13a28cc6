package main

import (
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

func initCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "set up a cluster: answer a few questions, then run `tunctl up`",
		ArgsUsage: "[SITE|HOST]",
		Description: "Asks for the cluster, your user name there and what the job needs, adds a commented section\n" +
			"to your config and tries to log in. The rest of the file stays as it is. Every answer can be\n" +
			"given as a flag; without a terminal nothing is asked:\n\n" +
			"  tunctl init narval --user alice --with account=def-alice --with hours=3 --no-login\n\n" +
			"HOST is a host of your ssh config that is not one of the known sites (`tunctl sites`).",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "your user `NAME` on the cluster"},
			&cli.StringFlag{Name: "entrance", Usage: "login node of the site, by `NAME`"},
			&cli.StringFlag{Name: "host", Usage: "`ADDRESS` or ssh alias of the login node"},
			&cli.StringFlag{Name: "scheduler", Usage: "slurm, pbs or none, for an unknown site"},
			&cli.StringFlag{Name: "session", Usage: "`NAME` of the new session", Value: "jupyter"},
			&cli.StringSliceFlag{Name: "with", Usage: "answer a question: `NAME=VALUE`"},
			&cli.BoolFlag{Name: "no-login", Usage: "do not try to log in at the end"},
			&cli.BoolFlag{Name: "print", Usage: "print the section, and change nothing"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := setUp(ctx, c, t)
			if c.Err() == nil && (ctx.Err() != nil || errors.Is(err, io.EOF)) {
				t.Say("stopped")
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// setUp asks, writes, and tries.
func setUp(ctx context.Context, c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	cfg, err := configToAddTo(p)
	if err != nil {
		return err
	}
	i, err := newInterview(c, t, cfg, loadSites(t, p))
	if err != nil {
		return err
	}
	plan, err := i.hold(ctx)
	if err != nil {
		return err
	}
	text, err := plan.text()
	if err != nil {
		return err
	}
	if c.Bool("print") {
		_, err := io.WriteString(t.Out, text)
		return err
	}
	if err := appendConfig(ctx, p, text); err != nil {
		return err
	}
	t.Say("%s added to %s:\n\n%s", t.Paint(term.Green, "✓"), p.Config, text)
	if !c.Bool("no-login") {
		if err := tryLogin(ctx, c, t, p, plan.host); err != nil {
			return err
		}
	}
	t.Say("Next: tunctl up %s", plan.session)
	return nil
}

// configToAddTo is the config that init adds to.
func configToAddTo(p home.Paths) (*configs.Config, error) {
	cfg, err := existingConfig(p)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint == "" {
		e.Hint = "fix the file first: `tunctl config edit` opens it"
	}
	return cfg, err
}

// tryLogin logs in as `tunctl up` would. The config stays where that fails.
func tryLogin(ctx context.Context, c *cli.Context, t *term.Terminal, p home.Paths, host string) error {
	cl, _, err := connect(ctx, t, p)
	if err != nil {
		return err
	}
	if err := cl.Reload(ctx); err != nil {
		return err
	}
	err = login(ctx, c, t, host)
	if err == nil || ctx.Err() != nil {
		return err
	}
	t.Say("The login failed, but the config was written: `tunctl login %s` tries again.", host)
	return err
}
