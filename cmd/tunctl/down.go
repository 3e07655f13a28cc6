package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func downCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "down",
		Usage:     "stop forwarding; with --cancel end the job too",
		ArgsUsage: "[SESSION]",
		Description: "The job runs on, unless --cancel ends it.\n\n" +
			"  tunctl down jupyter\n" +
			"  tunctl down jupyter --cancel",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "take every session down"},
			&cli.BoolFlag{Name: "cancel", Usage: "end the job as well, so that it is charged no longer; asks first"},
			yesFlag(),
		},
		Action: func(c *cli.Context) error { return down(c, t) },
	}
}

func down(c *cli.Context, t *terminal) error {
	p, err := paths(c)
	if err != nil {
		return err
	}
	req := api.DownRequest{All: c.Bool("all"), Cancel: c.Bool("cancel")}
	if req.All && c.NArg() > 0 {
		return usagef("either --all or a session's name")
	}
	if !req.All {
		if req.Session, err = sessionName(c, p); err != nil {
			return err
		}
	}
	cl := client.New(p)
	if req.Cancel {
		if err := confirmCancel(c, t, cl, req); err != nil {
			return err
		}
	}
	res, err := cl.Down(c.Context, req)
	if errors.Is(err, client.ErrNotRunning) {
		t.say("nothing is up: the agent is not running")
		return nil
	}
	for _, s := range res.Sessions {
		t.say("%s is down%s", s.Name, runsOn(s, time.Now()))
		if s.Next != nil {
			t.say("job %s, which was to follow it, stays in the queue: `%s` removes it", s.Next.ID, howToEnd(s, s.Next))
		}
	}
	return err
}

// confirmCancel asks whether the jobs that --cancel would end may end.
func confirmCancel(c *cli.Context, t *terminal, cl *client.Client, req api.DownRequest) error {
	if c.Bool("yes") || !t.asks {
		return nil
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	st, err := cl.Status(ctx)
	if err != nil {
		return nil // down itself says what is wrong
	}
	var jobs []string
	for _, s := range st.Sessions {
		if (req.All || s.Name == req.Session) && s.Job != nil && !s.Job.State.Ended() {
			jobs = append(jobs, describeJob(*s.Job, time.Now()))
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	return t.confirm(ctx, false, "Cancel "+strings.Join(jobs, " and ")+"?")
}

// runsOn says that a job outlives its session, and what that means.
func runsOn(s api.Session, now time.Time) string {
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
	return fmt.Sprintf("; job %s runs on and is charged%s: `%s` ends it", j.ID, untilText(j, now), howToEnd(s, j))
}

// howToEnd is how to end the job of a session that is down. One that was
// forgotten has no name to end it by.
func howToEnd(s api.Session, j *api.Job) string {
	if s.Forgotten {
		return fmt.Sprintf("tunctl cancel %s %s", s.Host, j.ID)
	}
	return fmt.Sprintf("tunctl down %s --cancel", s.Name)
}
