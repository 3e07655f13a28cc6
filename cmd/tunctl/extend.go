package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/action"
	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func extendCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "extend",
		Usage:     "ask the scheduler for more time for a session's running job",
		ArgsUsage: "[SESSION] [TIME]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "idle", Usage: "have the job count as used now, for end_idle"}},
		Action:    invokeInterruptible(t, atMost(2, "a session and a time", extend)),
	}
}

func extend(ctx context.Context, inv *invocation) error {
	name, typed, err := extendArguments(inv)
	if err != nil {
		return err
	}
	if inv.Bool("idle") && typed != "" {
		return usagef("extend --idle takes no time: end_idle of the session is that")
	}
	if name == "" {
		if name, err = inv.fittingSession(ctx, "Extend the job of which session?", "no session has a running job", api.Session.RunsJob, api.Session.HasLiveJob); err != nil {
			return err
		}
	}
	var by time.Duration
	if !inv.Bool("idle") {
		if by, err = extension(ctx, inv, name, typed); err != nil {
			return err
		}
	}
	st, err := inv.status(ctx)
	if s, ok := st.Session(name); ok && s.HasLiveJob() {
		err = inv.connectHost(ctx, s.Host, inv.login)
	}
	if err != nil {
		return err
	}
	if inv.Bool("idle") {
		text, err := action.Extend(ctx, inv.client, api.ExtendRequest{Session: name, Idle: true})
		if err == nil {
			inv.Say("%s %s", inv.Paint(term.Green, "✓"), text)
		}
		return err
	}
	inv.Draw("asking the scheduler…")
	job, err := inv.client.Extend(ctx, api.ExtendRequest{Session: name, Seconds: int64(by.Seconds())})
	inv.Draw("")
	if err != nil {
		return err
	}
	inv.Say("%s job %s runs%s", inv.Paint(term.Green, "✓"), job.ID, show.Until(&job, time.Now()))
	if job.Hint != "" {
		inv.Say("  %s", job.Hint)
	}
	return nil
}

// extendArguments distinguishes a session from a time; both may be left out at a terminal,
// where the user is asked.
func extendArguments(inv *invocation) (name, typed string, err error) {
	words := inv.Args().Slice()
	switch {
	case len(words) == 2:
		return words[0], words[1], nil
	case len(words) == 1 && strings.IndexAny(words[0], "0123456789-") == 0:
		return "", words[0], nil
	case len(words) == 1:
		name = words[0]
	}
	if !inv.Interactive && !inv.Bool("idle") {
		return "", "", usagef("extend needs how much longer the job may run, as in `tunctl extend jupyter 1h`")
	}
	return name, "", nil
}

// extension is how much longer a session's job should run: as typed, or as the user
// answers.
func extension(ctx context.Context, inv *invocation, name, typed string) (time.Duration, error) {
	if typed != "" {
		return action.ParseSpan(typed)
	}
	st, err := inv.status(ctx)
	if err != nil {
		return 0, err
	}
	s, ok := st.Session(name)
	if !ok {
		return 0, unknownSession(name, st)
	}
	if now := time.Now(); s.RunsJob() && s.Job.End.After(now) {
		inv.Say("job %s of %s runs%s, %s from now", s.Job.ID, name, show.Until(s.Job, now), api.DurationText(s.Job.End.Sub(now)))
	}
	for {
		text, err := inv.ReadLine(ctx, "How much longer? (such as 30m, 2h or 1d; Enter for none) ", true)
		switch {
		case ctx.Err() != nil:
			return 0, exitError(exitInterrupted)
		case errors.Is(err, io.EOF) || err == nil && strings.TrimSpace(text) == "":
			inv.Say("nothing was changed")
			return 0, exitError(exitFailed)
		case err != nil:
			return 0, err
		}
		by, err := action.ParseSpan(strings.TrimSpace(text))
		if err == nil {
			return by, nil
		}
		printError(inv.Terminal, err)
	}
}
