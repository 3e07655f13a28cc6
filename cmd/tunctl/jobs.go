package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

func jobsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "jobs",
		Usage:     "list your jobs on a host, why they wait and how long they run",
		ArgsUsage: "[HOST]",
		Description: "HOST may be any alias of ~/.ssh/config. tunctl connects to it if necessary, and stays connected\n" +
			"until `tunctl logout`. Without HOST: every connected host or, if none is connected, the only\n" +
			"host in the config. A host that fails is reported, and the jobs of the others are listed.\n\n" +
			"  tunctl jobs narval\n" +
			"  tunctl jobs --all",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "include jobs that ended within the last day"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("unexpected argument %q: jobs takes one host", c.Args().Get(1))
			}
			return attended(c, t, func(ctx context.Context, d desk) error { return jobs(ctx, c, d) })
		},
	}
}

// desk is what a command on hosts needs: the agent, its status at the start, and the
// person at the terminal.
type desk struct {
	*term.Terminal
	client *client.Client
	status api.Status
}

// attended runs a command that a person waits for at a running agent. A Ctrl-C
// ends it.
func attended(c *cli.Context, t *term.Terminal, run func(context.Context, desk) error) error {
	ctx, stop := interruptible(c.Context)
	defer stop()
	p, err := paths(c)
	if err != nil {
		return err
	}
	cl, st, err := connect(ctx, t, p)
	if err == nil {
		err = run(ctx, desk{Terminal: t, client: cl, status: st})
	}
	if c.Err() == nil && ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	return err
}

// up connects to a host, unless it is connected.
func (d desk) up(ctx context.Context, host string) error {
	for _, h := range d.status.Hosts {
		if h.Alias == host && h.State == api.HostUp {
			return nil
		}
	}
	return logInTo(ctx, d.Terminal, d.client, host)
}

// hostJob is a job of `tunctl jobs --json`.
type hostJob struct {
	Host string `json:"host"`
	api.Job
}

func jobs(ctx context.Context, c *cli.Context, d desk) error {
	hosts, err := jobHosts(c, d.status)
	if err != nil {
		return err
	}
	list, failed := collectJobs(ctx, hosts, func(host string) ([]api.Job, error) {
		if err := d.up(ctx, host); err != nil {
			return nil, err
		}
		return d.client.Jobs(ctx, host, c.Bool("all"))
	})
	switch {
	case len(failed) == len(hosts):
	case c.Bool("json"):
		if err := d.PrintIndentedJSON(list); err != nil {
			return err
		}
	case len(list) > 0:
		fmt.Fprint(d.Out, jobsTable(list, len(hosts) > 1, time.Now()).Draw(term.LayoutFor(d.Out)))
	case len(failed) == 0:
		d.Say("you have no jobs on %s", strings.Join(hosts, ", "))
	}
	return failures(d.Terminal, failed)
}

// collectJobs asks host after host, as far as ctx allows. One that fails costs its own
// jobs only.
func collectJobs(ctx context.Context, hosts []string, ask func(host string) ([]api.Job, error)) (list []hostJob, failed []error) {
	list = []hostJob{}
	for _, host := range hosts {
		if ctx.Err() != nil {
			break
		}
		found, err := ask(host)
		if err != nil {
			failed = append(failed, err)
		}
		for _, j := range found {
			list = append(list, hostJob{Host: host, Job: j})
		}
	}
	return list, failed
}

// jobHosts are the hosts that a person means: the one named, those that are connected,
// or the config's only one.
func jobHosts(c *cli.Context, st api.Status) ([]string, error) {
	if c.NArg() == 1 {
		return c.Args().Slice(), nil
	}
	var hosts []string
	for _, h := range st.Hosts {
		if h.State == api.HostUp {
			hosts = append(hosts, h.Alias)
		}
	}
	p, err := paths(c)
	if err != nil || len(hosts) > 0 {
		return hosts, err
	}
	if hosts = configuredHosts(p); len(hosts) == 1 {
		return hosts, nil
	}
	return nil, whichHost(c.Command.Name, hosts)
}

// configuredHosts are the hosts of the config, none where there is no good one.
func configuredHosts(p home.Paths) []string {
	cfg, err := configs.Load(p.Config)
	if err != nil {
		return nil
	}
	return cfg.HostNames()
}

// whichHost is the error of a command that cannot tell which host is meant.
func whichHost(command string, hosts []string) error {
	e := &api.Error{Code: api.CodeUsage, Message: command + " needs a host", Hint: fmt.Sprintf("name a host of your ssh config: `tunctl %s HOST`", command)}
	if len(hosts) > 0 {
		e.Hint = "available: " + strings.Join(hosts, ", ")
	}
	return e
}

// jobsTable has a row a job, with why it waits or how it ended below.
func jobsTable(list []hostJob, severalHosts bool, now time.Time) *term.Table {
	t := &term.Table{Header: []string{"JOB", "NAME", "STATE", "NODE", "WHEN"}}
	if severalHosts {
		t.Header = append(t.Header, "HOST")
	}
	for _, j := range list {
		cells := []term.Cell{
			{Text: j.ID, Colour: term.Bold},
			{Text: term.Truncate(j.Name, nameWidth)},
			{Text: string(j.State), Colour: jobColour(j.State)},
			{Text: orDash(j.Node)},
			{Text: whenText(j.Job, now)},
		}
		if severalHosts {
			cells = append(cells, term.Cell{Text: j.Host})
		}
		var notes []string
		if why := whyText(j.Job); why != "" {
			notes = []string{why}
		}
		t.Add(notes, cells...)
	}
	return t
}

// nameWidth is how much of a job's name is shown, so that the columns people look for
// stay whole on 80 columns.
const nameWidth = 20

func jobColour(s api.JobState) string {
	switch s {
	case api.JobRunning, api.JobFinished:
		return term.Green
	case api.JobFailed, api.JobOOM, api.JobNodeFail, api.JobNeverRan:
		return term.Red
	case api.JobHeld, api.JobTimeout, api.JobPreempted, api.JobUnknown:
		return term.Yellow
	case api.JobCancelled:
		return term.Grey
	}
	return ""
}

// whenText is the time that matters about a job: when it ended, ends or begins.
func whenText(j api.Job, now time.Time) string {
	switch {
	case j.State.Ended() && !j.End.IsZero():
		return "ended " + shortTime(j.End, now)
	case j.State.Waiting() && j.ExpectedStart.After(now):
		return "from " + shortTime(j.ExpectedStart, now)
	case j.State.Waiting() && !j.Submitted.IsZero():
		return "since " + shortTime(j.Submitted, now)
	case j.State == api.JobRunning && j.End.After(now):
		return "until " + shortTime(j.End, now)
	}
	return "-"
}

// shortTime is a time of day, with the weekday or the date when it is not today's.
func shortTime(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Sub(now).Abs() < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan")
}

// whyText says why a job waits or how it ended: in words, with the scheduler's own.
func whyText(j api.Job) string {
	switch {
	case j.Hint != "" && j.Reason != "" && j.Reason != j.Hint:
		return fmt.Sprintf("%s (%s)", j.Hint, j.Reason)
	case j.Hint != "":
		return j.Hint
	case j.State == api.JobRunning:
		return ""
	}
	return j.Reason
}
