package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

func downCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "down",
		Usage:     "stop forwarding; with --cancel also end the job",
		ArgsUsage: "[SESSION...]",
		Description: "Without SESSION: the session that is up. The job keeps running, and is charged, unless --cancel\n" +
			"ends it.\n\n" +
			"  tunctl down\n" +
			"  tunctl down jupyter --cancel\n" +
			"  tunctl down jupyter db",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "cancel", Usage: "also end the job, so that it is no longer charged; asks first"},
			&cli.BoolFlag{Name: "all", Usage: "disconnect all sessions"},
			yesFlag(),
		},
		Action: func(c *cli.Context) error { return down(c, t) },
	}
}

func down(c *cli.Context, t *term.Terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	requests, err := downRequests(ctx, c, t, p)
	if err != nil {
		return err
	}
	cl := client.New(p)
	if c.Bool("cancel") {
		if err := confirmCancel(ctx, c, t, cl, requests); err != nil {
			return err
		}
	}
	before := wereDown(ctx, cl)
	var errs []error
	for _, req := range requests {
		res, err := cl.Down(ctx, req)
		if errors.Is(err, client.ErrNotRunning) {
			t.Say("the agent is not running: nothing is up")
			return nil
		}
		for _, s := range res.Sessions {
			already := ""
			if before[s.Name] {
				already = "already "
			}
			t.Say("%s is %sdown%s", s.Name, already, keepsRunning(s, time.Now()))
			if s.Next != nil {
				t.Say("job %s, which was to follow it, stays in the queue: `%s` removes it", s.Next.ID, howToEnd(s, s.Next))
			}
		}
		errs = append(errs, err)
	}
	return failures(t, errs)
}

// wereDown are the sessions with nothing left to stop.
func wereDown(ctx context.Context, cl *client.Client) map[string]bool {
	st, err := cl.Status(ctx)
	if err != nil {
		return nil // down itself says what is wrong
	}
	down := map[string]bool{}
	for _, s := range st.Sessions {
		down[s.Name] = s.State == api.SessionDown
	}
	return down
}

// failures is the only error of several, or prints them all.
func failures(t *term.Terminal, errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	for _, err := range errs {
		explain(t, err)
	}
	return silentError(exitCode(errs[0]))
}

// downRequests are what the arguments ask for, one for each session that is named.
func downRequests(ctx context.Context, c *cli.Context, t *term.Terminal, p home.Paths) ([]api.DownRequest, error) {
	req := api.DownRequest{All: c.Bool("all"), Cancel: c.Bool("cancel")}
	switch {
	case req.All && c.NArg() > 0:
		return nil, usagef("down takes either --all or the names of sessions")
	case req.All:
		return []api.DownRequest{req}, nil
	}
	names := c.Args().Slice()
	if len(names) == 0 {
		of := choice{[]func(api.Session) bool{isNotDown}, "no session is up"}
		if req.Cancel {
			of = choice{[]func(api.Session) bool{hasLiveJob, isNotDown}, "no session is up or has a running job"}
		}
		name, err := chooseSession(ctx, c, t, p, of)
		if errors.Is(err, errNoneFits) {
			t.Say("%s", of.none)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		names = []string{name}
	}
	var requests []api.DownRequest
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		req.Session = name
		requests = append(requests, req)
	}
	return requests, nil
}

// confirmCancel asks whether the jobs that --cancel would end may end.
func confirmCancel(ctx context.Context, c *cli.Context, t *term.Terminal, cl *client.Client, requests []api.DownRequest) error {
	if c.Bool("yes") || !t.Interactive {
		return nil
	}
	st, err := cl.Status(ctx)
	if err != nil {
		return nil //nolint:nilerr // down itself says what is wrong
	}
	var jobs []string
	for _, s := range st.Sessions {
		asked := slices.ContainsFunc(requests, func(r api.DownRequest) bool { return r.All || r.Session == s.Name })
		if asked && hasLiveJob(s) {
			jobs = append(jobs, describeJob(*s.Job, time.Now()))
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	return confirm(ctx, t, false, "Cancel "+strings.Join(jobs, " and ")+"?")
}

// keepsRunning says that a job outlives its session, and what that means.
func keepsRunning(s api.Session, now time.Time) string {
	j := s.Job
	switch {
	case j == nil:
		return ""
	case j.State == api.JobCancelled:
		return fmt.Sprintf("; job %s was cancelled", j.ID)
	case j.State.Ended():
		return ""
	case j.State.Waiting():
		return fmt.Sprintf("; job %s is still queued and will run: `%s` removes it", j.ID, howToEnd(s, j))
	}
	return fmt.Sprintf("; job %s keeps running and is charged%s: `%s` ends it", j.ID, untilText(j, now), howToEnd(s, j))
}

// howToEnd is how to end the job of a session that is down. One that was
// forgotten has no name to end it by.
func howToEnd(s api.Session, j *api.Job) string {
	if s.Forgotten {
		return fmt.Sprintf("tunctl cancel %s %s", s.Host, j.ID)
	}
	return fmt.Sprintf("tunctl down %s --cancel", s.Name)
}
