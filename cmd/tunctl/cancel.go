package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/term"
)

func cancelCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a running or queued job",
		ArgsUsage: "SESSION | [HOST] JOB",
		Flags:     []cli.Flag{yesFlag()},
		Action:    invokeInterruptible(t, takes(1, 2, "cancel takes a session, or a host and a job: `tunctl cancel HOST JOB`", cancel)),
	}
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask for confirmation"}
}

func cancel(ctx context.Context, inv *invocation) error {
	if inv.NArg() == 2 {
		return cancelJob(ctx, inv, inv.Args().First(), inv.Args().Get(1))
	}
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return err
	}
	name := inv.Args().First()
	if _, ok := st.Session(name); ok {
		return takeDown(ctx, inv, st, []api.DownRequest{{Session: name, Cancel: true}})
	}
	if inv.isHost(name) {
		return usagef("cancel takes a session, or a host and a job: `tunctl cancel HOST JOB`")
	}
	host, err := inv.onlyHost()
	if err != nil {
		return err
	}
	return cancelJob(ctx, inv, host, name)
}

func cancelJob(ctx context.Context, inv *invocation, host, id string) error {
	if err := inv.connectHost(ctx, host, inv.authenticate); err != nil {
		return err
	}
	job, err := inv.client.Job(ctx, host, id)
	if err != nil {
		return err
	}
	if job.State.Ended() {
		inv.Say("job %s has already ended: %s", job.ID, job.State)
		return nil
	}
	if err := confirmCancel(ctx, inv, api.Session{Job: &job}); err != nil {
		return err
	}
	if _, err := inv.client.Cancel(ctx, host, job.Ref()); err != nil {
		return err
	}
	inv.Say("%s", action.CancelledText(job))
	return nil
}

// confirm asks the user at the terminal, if there is one, unless they are sure. Any
// answer but yes, of which declined says what it means, or a Ctrl-C, is an error that ends the program.
func confirm(ctx context.Context, t *term.Terminal, sure bool, question, declined string) error {
	if sure || !t.Interactive {
		return nil
	}
	yes, _ := t.Agrees(ctx, question, false)
	if ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	if yes {
		return nil
	}
	t.Say("%s", declined)
	return exitError(exitFailed)
}
