package main

import (
	"context"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
	"tunctl/internal/term"
)

func scriptCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "script",
		Usage:     "print the job script that tunctl would submit",
		ArgsUsage: "[SITE|SESSION]",
		Flags: []cli.Flag{
			withFlag("answer a question: `NAME=VALUE`; repeatable"),
			&cli.StringFlag{Name: "app", Usage: "the `APP`: desktop, rstudio, shell, …", Value: "jupyter", DefaultText: "jupyter"},
		},
		Action: invoke(t, atMost(1, "one site or session", printScript)),
	}
}

func printScript(ctx context.Context, inv *invocation) error {
	name, err := inv.argumentOr(inv.onlySession)
	if err != nil {
		return err
	}
	job, err := scriptJob(ctx, inv, name)
	if err != nil {
		return err
	}
	text, err := job.Script()
	if err != nil {
		return err
	}
	_, err = inv.Out.Write(text)
	return err
}

// scriptJob is the job of the session of that name, or of the site.
func scriptJob(ctx context.Context, inv *invocation, name string) (*configs.Job, error) {
	with, err := answersOf(inv.Context)
	if err != nil {
		return nil, err
	}
	sites := loadSites(inv.Terminal, inv.paths)
	cfg := readConfig(inv.paths)
	if s, ok := cfg.Session(name); ok {
		if inv.IsSet("app") {
			return nil, usagef("--app is for the script of a site: the config says what session %s runs", name)
		}
		return sessionJob(ctx, inv.client, sites, cfg, s, with)
	}
	site, err := sites.Find(name)
	if err != nil {
		names := append(configuredSessions(cfg), lists.Map(sites, func(s configs.Site) string { return s.Name })...)
		return nil, api.Errorf(api.CodeUsage, "no session and no site %q%s", name, suggest.DidYouMean(name, names)).
			WithHint("`tunctl status` lists the sessions, `tunctl sites` the sites")
	}
	job := &configs.Job{App: inv.String("app"), Name: inv.String("app"), Site: site, Answers: with}
	if job.App == configs.CommandJob {
		job.Command = "CHANGE-ME --port {port}"
		inv.Say("tunctl: replace CHANGE-ME for: the command")
	}
	if missing := fillIn(job); len(missing) > 0 {
		inv.Say("tunctl: replace CHANGE-ME for: %s; or set it with --with %s=…", strings.Join(missing, ", "), missing[0])
	}
	return job, nil
}

func sessionJob(ctx context.Context, cl *client.Client, sites configs.Sites, cfg *configs.Config, s configs.Session, with map[string]string) (*configs.Job, error) {
	if s.Builtin() == "" {
		return nil, api.Errorf(api.CodeUsage, "session %q has no built-in job script: submit is %q", s.Name, s.Submit).
			WithHint(`this prints the scripts that tunctl writes itself, such as for submit = "builtin:jupyter"`)
	}
	host := cfg.Host(s.Host)
	scheduler, err := schedulerOf(ctx, cl, sites, host)
	if err != nil {
		return nil, err
	}
	site, err := sites.ForHost(host, scheduler)
	if err != nil {
		return nil, err
	}
	job := s.BuiltinJob(host, site, scheduler)
	if job.Answers == nil {
		job.Answers = map[string]string{}
	}
	maps.Copy(job.Answers, with)
	return job, nil
}

// schedulerOf is the scheduler of a host from the config or its site, or as a running agent
// detects it over the existing connection.
func schedulerOf(ctx context.Context, cl *client.Client, sites configs.Sites, host configs.Host) (string, error) {
	if host.Scheduler != "" {
		return host.Scheduler, nil
	}
	if host.Site != "" {
		if site, err := sites.Find(host.Site); err != nil || site.Scheduler != "" {
			return site.Scheduler, err
		}
	}
	name, err := cl.Scheduler(ctx, host.Name)
	if err != nil {
		return "", api.Errorf(api.CodeNotReady, "the scheduler of %s is not known: %w", host.Name, err).
			WithHint("`tunctl login %s` connects, which finds out; or set scheduler to %s in [host.%s]",
				host.Name, configs.SchedulerChoice(), host.Name)
	}
	return name, nil
}

// fillIn answers the required questions that have no answer with CHANGE-ME, and returns their
// names.
func fillIn(job *configs.Job) []string {
	var missing []string
	for _, q := range job.Questions() {
		if !q.Required || q.Default != "" || job.Answers[q.Name] != "" {
			continue
		}
		job.Answers[q.Name] = "CHANGE-ME"
		missing = append(missing, q.Name)
	}
	return missing
}
