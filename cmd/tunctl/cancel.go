package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

func cancelCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a running or queued job on a host",
		ArgsUsage: "HOST JOB",
		Description: "JOB is a job id as `tunctl jobs HOST` lists it. On a terminal, tunctl asks for confirmation.\n\n" +
			"  tunctl cancel narval 4711",
		Flags: []cli.Flag{yesFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return usagef("cancel takes a host and a job: `tunctl cancel HOST JOB`")
			}
			return attended(c, t, func(ctx context.Context, d desk) error {
				return cancelJob(ctx, d, c.Args().Get(0), c.Args().Get(1), c.Bool("yes"))
			})
		},
	}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for confirmation"}
}

func cancelJob(ctx context.Context, d desk, host, id string, sure bool) error {
	if err := d.up(ctx, host); err != nil {
		return err
	}
	job, err := d.client.Job(ctx, host, id)
	if err != nil {
		return err
	}
	if job.State.Ended() {
		d.Say("job %s has already ended: %s", job.ID, job.State)
		return nil
	}
	if err := confirm(ctx, d.Terminal, sure, "Cancel "+describeJob(job, time.Now())+"?"); err != nil {
		return err
	}
	if _, err := d.client.Cancel(ctx, host, job.Ref()); err != nil {
		return err
	}
	d.Say("job %s was cancelled", job.ID)
	return nil
}

// describeJob names a job so that a person knows which it is and what it would lose.
func describeJob(j api.Job, now time.Time) string {
	text := "job " + j.ID
	if j.Name != "" {
		text += fmt.Sprintf(" %q", j.Name)
	}
	text += ", " + string(j.State)
	switch {
	case j.State.Waiting() && !j.Submitted.IsZero():
		text += " since " + shortTime(j.Submitted, now)
	case j.Node != "" && !j.Start.IsZero():
		text += fmt.Sprintf(" on %s since %s", j.Node, shortTime(j.Start, now))
	}
	return text
}

// confirm asks the person at the terminal, if there is one, unless they are sure. A
// no, or a Ctrl-C, is an error that ends the program.
func confirm(ctx context.Context, t *term.Terminal, sure bool, question string) error {
	if sure || !t.Interactive {
		return nil
	}
	text, err := t.ReadLine(ctx, question+" [y/N] ", true)
	if ctx.Err() != nil {
		return silentError(exitInterrupted)
	}
	if err == nil && (strings.EqualFold(text, "y") || strings.EqualFold(text, "yes")) {
		return nil
	}
	t.Say("nothing was cancelled")
	return silentError(exitFailed)
}
