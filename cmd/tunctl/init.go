package main

import (
	"context"
	"errors"
	"io"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func initCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "set up a cluster: a few questions, then `tunctl up` works",
		ArgsUsage: "[SITE|HOST]",
		Description: "Asks which cluster, who you are there and what the job needs, adds a commented part to the\n" +
			"config file, and tries to log in. What you wrote in the file stays as it is. Every answer can\n" +
			"be given as a flag too; without a terminal nothing is asked:\n\n" +
			"  tunctl init narval --user alice --with account=def-alice --with hours=3 --no-login\n\n" +
			"HOST is a host of your ssh config that is none of the sites (`tunctl sites`).",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "your user `NAME` there"},
			&cli.StringFlag{Name: "entrance", Usage: "which of the site's entrances"},
			&cli.StringFlag{Name: "host", Usage: "the login node's `ADDRESS`, or its ssh alias"},
			&cli.StringFlag{Name: "scheduler", Usage: "slurm, pbs or none, if it is no known site"},
			&cli.StringFlag{Name: "session", Usage: "what to call the session", Value: "jupyter"},
			&cli.StringSliceFlag{Name: "with", Usage: "answer a question; may be repeated: `NAME=VALUE`"},
			&cli.BoolFlag{Name: "no-login", Usage: "do not try to log in at the end"},
			&cli.BoolFlag{Name: "print", Usage: "print the part and change nothing"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := setUp(ctx, c, t)
			if c.Err() == nil && (ctx.Err() != nil || errors.Is(err, io.EOF)) {
				t.say("stopped; what was not added yet is not added")
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// setUp asks, writes, and tries.
func setUp(ctx context.Context, c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	cfg, err := configToAddTo(p)
	if err != nil {
		return err
	}
	i, err := newInterview(c, t, cfg, t.loadSites(p))
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
		_, err := io.WriteString(t.out, text)
		return err
	}
	if err := appendConfig(ctx, p, text); err != nil {
		return err
	}
	t.say("%s added to %s:\n\n%s", t.paint(green, "✓"), p.Config, text)
	if !c.Bool("no-login") {
		if err := tryLogin(ctx, c, t, p, plan.host); err != nil {
			return err
		}
	}
	t.say("Now: tunctl up %s", plan.session)
	return nil
}

// configToAddTo is the config that init adds to.
func configToAddTo(p home.Paths) (*configs.Config, error) {
	cfg, err := existingConfig(p)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint == "" {
		e.Hint = "init adds to a file without errors only: `tunctl config edit` opens it"
	}
	return cfg, err
}

// tryLogin logs in as `tunctl up` would. That it fails is worth a word, but the
// config is right all the same.
func tryLogin(ctx context.Context, c *cli.Context, t *terminal, p home.Paths, host string) error {
	cl, _, err := t.connect(ctx, p)
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
	t.say("The login did not work, and the config is written all the same: `tunctl login %s` tries again.", host)
	return err
}
