package main

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/term"
)

func cancelCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a running or queued job on a host",
		ArgsUsage: "HOST JOB",
		Description: `JOB is a job id as ''tunctl jobs HOST'' lists it. On a terminal, tunctl asks for confirmation.

			  tunctl cancel narval 4711`,
		Flags:  []cli.Flag{yesFlag()},
		Action: invokeInterruptible(t, takes(2, 2, "cancel takes a host and a job: `tunctl cancel HOST JOB`", cancelJob)),
	}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for confirmation"}
}

func cancelJob(ctx context.Context, inv *invocation) error {
	host := inv.Args().First()
	if err := inv.connectHostQuietly(ctx, host); err != nil {
		return err
	}
	job, err := inv.client.Job(ctx, host, inv.Args().Get(1))
	if err != nil {
		return err
	}
	if job.State.Ended() {
		inv.Say("job %s has already ended: %s", job.ID, job.State)
		return nil
	}
	if err := confirm(ctx, inv.Terminal, inv.Bool("yes"), action.CancelQuestion(time.Now(), job)); err != nil {
		return err
	}
	if _, err := inv.client.Cancel(ctx, host, job.Ref()); err != nil {
		return err
	}
	inv.Say("%s", action.CancelledText(job))
	return nil
}

// confirm asks the person at the terminal, if there is one, unless they are sure. Any
// answer but yes, or a Ctrl-C, is an error that ends the program.
func confirm(ctx context.Context, t *term.Terminal, sure bool, question string) error {
	if sure || !t.Interactive {
		return nil
	}
	text, err := t.ReadLine(ctx, question+" [y/N] ", true)
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	if err == nil && (strings.EqualFold(text, "y") || strings.EqualFold(text, "yes")) {
		return nil
	}
	t.Say(action.NothingCancelled)
	return exitError(exitFailed)
}
