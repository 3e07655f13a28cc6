package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/home"
)

func attachCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "open what a job serves that you started by hand; needs no config",
		ArgsUsage: "HOST [JOB]",
		Description: "Reads the job's log, forwards the port that it tells and opens the page. Without JOB: the one\n" +
			"that runs, or the one of several that serves something. HOST is as for ssh.\n\n" +
			"`tunctl down` ends the forwarding and forgets the job, which runs on. --save makes a session\n" +
			"of it in the config, so that `tunctl up NAME` finds or starts the next one.\n\n" +
			"  tunctl attach narval\n" +
			"  tunctl attach narval 4711 --save notebook",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "save", Usage: "add a session of this `NAME` to the config"},
			waitFlag(),
			&cli.BoolFlag{Name: "no-open", Usage: "do not open the page in a browser"},
			&cli.BoolFlag{Name: "json", Usage: "print each event as a line of JSON"},
		},
		BashComplete: completeHosts,
		Action: func(c *cli.Context) error {
			if c.NArg() < 1 || c.NArg() > 2 {
				return usagef("attach takes a host and, if you like, a job's id")
			}
			ctx, stop := interruptible(c.Context)
			defer stop()
			a := &attachment{term: t, host: c.Args().Get(0), job: c.Args().Get(1), save: c.String("save")}
			err := a.run(ctx, c)
			if c.Err() == nil && ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// attachment is one `tunctl attach`.
type attachment struct {
	term      *terminal
	host, job string
	save      string
}

func (a *attachment) run(ctx context.Context, c *cli.Context) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	if err := a.checkSave(p); err != nil {
		return err
	}
	if _, err := connected(ctx, c, a.term, a.host); err != nil {
		return err
	}
	u := &up{term: a.term, attaches: true, json: c.Bool("json"), wait: c.Duration("wait")}
	var ready api.Session
	u.begin = func(ctx context.Context) (api.UpResponse, error) { return a.attach(ctx, u) }
	u.done = func(s api.Session) { ready = s }
	if err := u.run(ctx, p, !c.Bool("no-open") && !u.json); err != nil {
		return err
	}
	if a.save == "" {
		if !u.json {
			a.term.say("`tunctl down %s` ends the forwarding; --save NAME would make a session of it", u.name)
		}
		return nil
	}
	return a.keep(ctx, p, ready)
}

// checkSave refuses a name that is taken, before anything is done.
func (a *attachment) checkSave(p home.Paths) error {
	cfg, err := configs.Load(p.Config)
	if a.save == "" || err != nil {
		return nil //nolint:nilerr // a config that is not there yet has no names; one with errors is told when saving
	}
	if _, taken := cfg.Session(a.save); taken {
		return usagef("there is a session %q in %s already", a.save, p.Config)
	}
	return nil
}

// attach asks the agent, and the person where several jobs may be meant.
func (a *attachment) attach(ctx context.Context, u *up) (api.UpResponse, error) {
	for {
		answer, err := u.client.Attach(ctx, api.AttachRequest{Host: a.host, Job: a.job, Name: a.save})
		if err != nil {
			return api.UpResponse{}, err
		}
		if answer.Session != nil {
			return api.UpResponse{Session: *answer.Session, At: answer.At}, nil
		}
		if a.job, err = a.choose(ctx, answer.Candidates); err != nil {
			return api.UpResponse{}, err
		}
	}
}

// choose lets the person pick one of several jobs.
func (a *attachment) choose(ctx context.Context, jobs []api.Candidate) (string, error) {
	if !a.term.asks {
		ids := make([]string, len(jobs))
		for i, j := range jobs {
			ids[i] = j.Job.ID
		}
		return "", &api.Error{
			Code: api.CodeUsage, Message: fmt.Sprintf("several jobs run on %s: which one?", a.host),
			Hint: fmt.Sprintf("tunctl attach %s JOB; there is: %s", a.host, strings.Join(ids, ", ")),
		}
	}
	return pickJob(ctx, a.term, jobs)
}

// pickJob lets the person pick one of several jobs by its number in the list, or its id.
func pickJob(ctx context.Context, t *terminal, jobs []api.Candidate) (string, error) {
	for i, j := range jobs {
		t.say("%3d) %s %s %s %s", i+1, pad(j.Job.ID, 12), pad(api.Sanitize(j.Job.Name), 16), pad(j.Job.Node, 10), strings.TrimSpace(j.App+" "+j.Serve))
	}
	for {
		text, err := t.readLine(ctx, fmt.Sprintf("Which one? [1-%d] ", len(jobs)), true)
		if errors.Is(ctx.Err(), context.Canceled) {
			t.say("stopped; nothing was begun")
			return "", silentError(exitInterrupted)
		}
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(text)
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(jobs) {
			return jobs[n-1].Job.Ref(), nil
		}
		for _, j := range jobs {
			if j.Job.ID == text || j.Job.Ref() == text {
				return j.Job.Ref(), nil
			}
		}
		t.say("%q is none of them: answer with a number from 1 to %d, or a job's id", text, len(jobs))
	}
}

// keep makes a session of the job in the config: adopted by its name, and started
// by its script where the scheduler tells that.
func (a *attachment) keep(ctx context.Context, p home.Paths, s api.Session) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Saved by `tunctl attach %s`.\n[session.%s]\nhost = %s\n", a.host, a.save, tomlText(a.host))
	if s.Endpoint != nil && s.Endpoint.App != "" {
		fmt.Fprintf(&b, "app  = %s\n", tomlText(s.Endpoint.App))
	}
	if s.Job != nil && s.Job.Name != "" {
		fmt.Fprintf(&b, "job  = %s\n", tomlText(s.Job.Name))
	}
	if s.Job != nil && strings.HasPrefix(s.Job.Script, "/") && !strings.Contains(s.Job.Script, "/.tunctl/") { // not a copy of ours
		fmt.Fprintf(&b, "# Submitted when no such job is there.\nsubmit = %s\n", tomlText(s.Job.Script))
	}
	if err := appendConfig(ctx, p, b.String()); err != nil {
		return err
	}
	a.term.say("%s saved in %s: `tunctl up %s` finds it again", a.term.paint(green, "✓"), p.Config, a.save)
	return nil
}
