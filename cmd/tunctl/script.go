package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
)

func scriptCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "script",
		Usage:     "print the job script that tunctl would submit",
		ArgsUsage: "SITE|SESSION",
		Description: "For a session with submit = \"builtin:…\": the script with its answers. For a site: the script\n" +
			"with the answers given by --with, and CHANGE-ME where one is needed. To take it over:\n\n" +
			"  tunctl script jupyter > my-job.sh\n\n" +
			"and in the config: submit = \"local:./my-job.sh\"",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "with", Usage: "answer a question; may be repeated: `NAME=VALUE`"},
			&cli.StringFlag{Name: "app", Usage: "jupyter or tensorboard", Value: "jupyter"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("script takes the name of a site or a session")
			}
			job, err := scriptJob(c, t, c.Args().First())
			if err != nil {
				return err
			}
			text, err := job.Script()
			if err != nil {
				return err
			}
			_, err = t.out.Write(text)
			return err
		},
	}
}

// scriptJob is the job of the session, or else of the site, of that name.
func scriptJob(c *cli.Context, t *terminal, name string) (*configs.Job, error) {
	p, err := paths(c)
	if err != nil {
		return nil, err
	}
	with, err := answersOf(c)
	if err != nil {
		return nil, err
	}
	sites := t.loadSites(p)
	if cfg, err := configs.Load(p.Config); err == nil {
		if s, ok := cfg.Session(name); ok {
			return sessionJob(t, sites, cfg, s, with)
		}
	}
	site, err := sites.Find(name)
	if err != nil {
		return nil, &api.Error{Code: api.CodeUsage, Message: "there is neither a session nor a site " + name, Hint: "`tunctl sites` lists the sites"}
	}
	job := &configs.Job{App: c.String("app"), Name: c.String("app"), Site: site, Answers: with}
	if missing := fillIn(job); len(missing) > 0 {
		t.say("tunctl: to be filled in, where it says CHANGE-ME: %s; or answer with --with %s=…", strings.Join(missing, ", "), missing[0])
	}
	return job, nil
}

func sessionJob(t *terminal, sites configs.Sites, cfg *configs.Config, s configs.Session, with map[string]string) (*configs.Job, error) {
	if s.Builtin() == "" {
		return nil, &api.Error{
			Code: api.CodeUsage, Message: "session " + s.Name + " submits a script of your own: " + cmp.Or(s.Submit, "none"),
			Hint: "only jobs that come with tunctl, submit = \"builtin:jupyter\", are written by it",
		}
	}
	host := cfg.Host(s.Host)
	scheduler := host.Scheduler
	if scheduler == "" && host.Site == "" {
		scheduler = "slurm"
		t.say("tunctl: which scheduler %s has is found out when it is connected; this is for Slurm", s.Host)
	}
	site, err := sites.ForHost(host, scheduler)
	if err != nil {
		return nil, err
	}
	job := newJob(site, scheduler, s)
	if job.Answers == nil {
		job.Answers = map[string]string{}
	}
	maps.Copy(job.Answers, with)
	return job, nil
}

// answersOf reads --with NAME=VALUE.
func answersOf(c *cli.Context) (map[string]string, error) {
	answers := map[string]string{}
	for _, pair := range c.StringSlice("with") {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--with takes NAME=VALUE, and not %q", pair)
		}
		answers[name] = text
	}
	return answers, nil
}

// fillIn answers what must be answered and is not, so that there is something to
// see, and returns the names of those.
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

// checkJobs reports a host whose site there is not, and a session whose answers do not fit its site. Where the site is
// only known once the host is connected, there is nothing to check by yet.
func checkJobs(sites configs.Sites, cfg *configs.Config) error {
	for _, h := range cfg.Hosts {
		if h.Site == "" {
			continue
		}
		if _, err := sites.Find(h.Site); err != nil {
			return inTable("host", h.Name, err)
		}
	}
	for _, s := range cfg.Sessions {
		host := cfg.Host(s.Host)
		if s.Builtin() == "" || host.Site == "" && host.Scheduler == "" {
			continue
		}
		site, err := sites.ForHost(host, host.Scheduler)
		if err == nil {
			_, err = newJob(site, host.Scheduler, s).Script()
		}
		if err != nil {
			return inTable("session", s.Name, err)
		}
	}
	return nil
}

// inTable says which table of the config an error is about.
func inTable(kind, name string, err error) error {
	e := &api.Error{Code: api.CodeConfig, Message: fmt.Sprintf("[%s.%s]: %v", kind, name, err), Err: err}
	if cause, ok := errors.AsType[*api.Error](err); ok {
		e.Hint = cause.Hint
	}
	return e
}

// newJob is the job that comes with tunctl and that a session submits.
func newJob(site configs.Site, scheduler string, s configs.Session) *configs.Job {
	return &configs.Job{
		App: s.Builtin(), Name: cmp.Or(s.Job, s.Name), Site: site, Scheduler: scheduler, Reach: s.Reach, Answers: maps.Clone(s.With),
	}
}
