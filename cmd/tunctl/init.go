package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/setup"
	"tunctl/internal/term"
)

func initCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "set up a cluster: answer a few questions, then run `tunctl up`",
		ArgsUsage: "[SITE|HOST]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Usage: "your user `NAME` on the cluster"},
			&cli.StringFlag{Name: "entrance", Usage: "login node of the site, by `NAME`"},
			&cli.StringFlag{Name: "host", Usage: "`ADDRESS` or ssh alias of the login node"},
			&cli.StringFlag{Name: "scheduler", Usage: "the `SCHEDULER`: " + configs.SchedulerChoice()},
			&cli.StringFlag{Name: "app", Usage: "the `APP`: desktop, rstudio, shell, …", Value: "jupyter", DefaultText: "jupyter"},
			&cli.StringFlag{Name: "session", Usage: "`NAME` of the new or changed session", DefaultText: "the app"},
			withFlag("answer a question: `NAME=VALUE`"),
			&cli.StringFlag{Name: "submit", Usage: "submit your own `SCRIPT`, as in a session"},
			&cli.StringFlag{Name: "job", Usage: "use a running job of this `NAME`"},
			&cli.BoolFlag{Name: "no-look", Usage: "ask, and look for no answers there"},
			&cli.BoolFlag{Name: "no-login", Usage: "do not log in"},
			&cli.BoolFlag{Name: "print", Usage: "print the section, and change nothing"},
		},
		Action: invokeInterruptible(t, atMost(1, "one site or host", func(ctx context.Context, inv *invocation) error {
			err := setUp(ctx, inv)
			if inv.Context.Err() == nil && (ctx.Err() != nil || errors.Is(err, io.EOF)) {
				inv.Say("stopped")
				return exitError(exitInterrupted)
			}
			return err
		})),
	}
}

// setUp reads the flags, and asks for what they leave open.
func setUp(ctx context.Context, inv *invocation) error {
	cfg, err := existingConfig(inv.paths)
	if err != nil {
		return api.ReplaceHint(err, "fix the file first: `tunctl config edit` opens it")
	}
	if _, err := liveStatus(ctx, inv.client); err != nil && !inv.Bool("print") {
		return err // as of an agent with another config: it would not know what is added
	}
	o, err := setupOptions(inv, cfg, loadSites(inv.Terminal, inv.paths))
	if err != nil {
		return err
	}
	o.Config, o.SSHConfig, o.Client = cfg, sshConfigFile(cfg), inv.client
	o.Login = func(ctx context.Context, host string) error {
		if _, err := inv.ensureAgent(ctx); err != nil {
			return err
		}
		if err := inv.client.Reload(ctx); err != nil {
			return err
		}
		if err := inv.login(ctx, host, api.KeepNot); err != nil {
			return err
		}
		return offerKey(ctx, inv, host)
	}
	return setup.Run(ctx, inv.Terminal, o)
}

// setupOptions are the answers that were given as flags.
func setupOptions(inv *invocation, cfg *configs.Config, sites configs.Sites) (setup.Options, error) {
	o := setup.Options{
		Argument: inv.Args().First(), Host: inv.String("host"), Entrance: inv.String("entrance"), User: inv.String("user"),
		Scheduler: inv.String("scheduler"), App: inv.String("app"), Session: inv.String("session"), Job: inv.String("job"),
		NoLook: inv.Bool("no-look"), NoLogin: inv.Bool("no-login"), Print: inv.Bool("print"), Sites: sites,
	}
	if s, ok := cfg.Session(o.Session); ok && !inv.IsSet("app") {
		o.App = cmp.Or(s.Builtin(), o.App)
	}
	if !slices.Contains(configs.BuiltinJobs(), o.App) {
		known := slices.DeleteFunc(configs.BuiltinJobs(), func(name string) bool { return name == configs.CommandJob })
		return o, usagef("--app takes %s, not %q", strings.Join(known, ", "), o.App)
	}
	if o.App == configs.CommandJob {
		return o, api.Errorf(api.CodeUsage, "init cannot know the command to run").
			WithHint("add a session with submit = \"builtin:command\" and command = \"…\" to the config: `tunctl config edit`")
	}
	if err := setup.CheckSessionName(cmp.Or(o.Session, o.App)); err != nil {
		return o, err
	}
	var err error
	if o.With, err = answersOf(inv.Context); err != nil {
		return o, err
	}
	if o.Submit, err = findScript(inv.String("submit")); err != nil {
		return o, err
	}
	if strings.HasPrefix(o.Submit, "builtin:") {
		return o, usagef("--submit takes a script of yours, not %q: --app names the jobs that come with tunctl", o.Submit)
	}
	return o, nil
}
