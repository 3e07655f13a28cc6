package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func initCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "set up a cluster: answer a few questions, then run `tunctl up`",
		ArgsUsage: "[SITE|HOST]",
		Description: `Asks for the cluster, logs in and looks for your accounts, partitions, job scripts and environments with
			Jupyter there, once and for at most half a minute. It asks what is left to choose, and adds a commented
			section to your config. The rest of the file stays as it is.

			Every answer can be given as a flag; without a terminal nothing is asked or looked for:

			  tunctl init narval --user alice --with account=def-alice --with hours=3 --no-login

			A job script that you have is enough: --submit names it, --job the name of its jobs.

			HOST is a name from your ssh config, or a full host name, of a cluster that is not one of the known sites
			(''tunctl sites'').`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "your user `NAME` on the cluster"},
			&cli.StringFlag{Name: "entrance", Usage: "login node of the site, by `NAME`"},
			&cli.StringFlag{Name: "host", Usage: "`ADDRESS` or ssh alias of the login node"},
			&cli.StringFlag{Name: "scheduler", Usage: configs.SchedulerChoice()},
			&cli.StringFlag{Name: "app", Usage: "desktop, rstudio, shell, …", Value: "jupyter", DefaultText: "jupyter"},
			&cli.StringFlag{Name: "session", Usage: "`NAME` of the new session", DefaultText: "the app"},
			withFlag("answer a question: `NAME=VALUE`"),
			&cli.StringFlag{Name: "submit", Usage: "submit your own `SCRIPT`, as in a session"},
			&cli.StringFlag{Name: "job", Usage: "use a running job of this `NAME`"},
			&cli.BoolFlag{Name: "no-look", Usage: "ask, and look for no answers there"},
			&cli.BoolFlag{Name: "no-login", Usage: "do not log in"},
			&cli.BoolFlag{Name: "print", Usage: "print the section, and change nothing"},
		},
		Action: invokeInterruptible(t, func(ctx context.Context, inv *invocation) error {
			err := setUp(ctx, inv)
			if inv.Context.Err() == nil && (ctx.Err() != nil || errors.Is(err, io.EOF)) {
				inv.Say("stopped")
				return exitError(exitInterrupted)
			}
			return err
		}),
	}
}

// setUp asks the person, adds to the config and tries to log in.
func setUp(ctx context.Context, inv *invocation) error {
	cfg, err := existingConfig(inv.paths)
	if err != nil {
		return api.ReplaceHint(err, "fix the file first: `tunctl config edit` opens it")
	}
	if _, err := inv.client.Status(ctx); err != nil && !errors.Is(err, client.ErrNotRunning) && !inv.Bool("print") {
		return err // as of an agent with another config: it would not know what is added
	}
	i, err := newInterview(inv, cfg, loadSites(inv.Terminal, inv.paths))
	if err != nil {
		return err
	}
	if err := i.run(ctx); err != nil {
		return err
	}
	text, err := i.text()
	if err != nil {
		return err
	}
	if inv.Bool("print") {
		_, err := io.WriteString(inv.Out, text)
		return err
	}
	if err := appendConfig(ctx, inv.paths, text); err != nil {
		return err
	}
	inv.Say("%s added to %s:", inv.Paint(term.Green, "✓"), inv.paths.Config)
	fmt.Fprintf(inv.Err, "\n%s\n", text) // as it is in the file, with long lines
	if !inv.Bool("no-login") && !i.loggedIn {
		if err := inv.tryLogin(ctx, i.host, "login"); err != nil {
			return err
		}
	}
	if i.loggedIn && (i.submit != "" || !i.adopts) {
		inv.checkJob(ctx, i.session)
	}
	inv.Say("Next: tunctl up %s", i.session)
	return nil
}

// checkJob asks the scheduler whether it would accept the session's job, which is not
// submitted.
func (inv *invocation) checkJob(ctx context.Context, session string) {
	inv.Draw("asking the scheduler whether it accepts the job …")
	var preview api.Preview
	err := inv.client.Preview(ctx, api.PreviewRequest{Session: session, With: []api.Choices{{}}}, func(p api.Preview) { preview = p })
	inv.Draw("")
	switch {
	case ctx.Err() != nil:
	case err != nil:
		inv.Say("%s could not check the job: %v", inv.Paint(term.Yellow, "!"), err)
	case preview.Refused != "":
		inv.Say("%s %s\n`tunctl config edit` changes its answers", inv.Paint(term.Yellow, "!"), api.Sanitize(preview.Refused))
	case preview.Start.IsZero() && preview.Why != "": // perhaps that the job was submitted, and is cancelled
		inv.Say("%s", api.Sanitize(preview.Why))
	case !preview.Start.IsZero():
		inv.Say("%s the scheduler would accept the job; start: %s", inv.Paint(term.Green, "✓"), api.Sanitize(show.Start(preview, time.Now())))
	}
}

// tryLogin logs in as `tunctl up` would. If that fails, the config stays, and the command again
// tries again.
func (inv *invocation) tryLogin(ctx context.Context, host, again string) error {
	if _, err := inv.ensureAgent(ctx); err != nil {
		return err
	}
	if err := inv.client.Reload(ctx); err != nil {
		return err
	}
	err := inv.login(ctx, host, api.KeepNot)
	if err == nil || ctx.Err() != nil {
		return err
	}
	inv.Say("The login failed, but the config was written: `tunctl %s %s` tries again.\n`tunctl config edit` changes or removes it.", again, host)
	return err
}
