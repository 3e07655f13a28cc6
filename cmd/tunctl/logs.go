package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
	"tunctl/internal/term"
)

func logsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a session's job, or of any of your jobs",
		ArgsUsage: "[SESSION | HOST JOB]",
		Description: "Without SESSION: the session that is up. A log may contain control codes that move the cursor,\n" +
			"rename the window or clear the screen. On a terminal only text and colours are shown; a file\n" +
			"or a pipe gets everything.\n\n" +
			"  tunctl logs jupyter           what the job has written so far\n" +
			"  tunctl logs -f                keep showing new lines until Ctrl-C\n" +
			"  tunctl logs narval 4711       a job without a session\n" +
			"  tunctl logs jupyter > job.log",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep showing new lines until Ctrl-C"},
			&cli.BoolFlag{Name: "secrets", Usage: "show tokens instead of •••"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			p, err := paths(c)
			if err != nil {
				return err
			}
			q, err := logQuery(ctx, c, t, p)
			if err != nil {
				return err
			}
			out := t.Out
			if term.IsTerminal(out) {
				safe := term.NewSanitizer(out)
				defer safe.ResetColour()
				out = safe
			}
			err = showLog(ctx, t, client.New(p), q, out)
			if ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// silentLog is how long a followed log may stay empty before that is said.
const silentLog = 3 * time.Second

// showLog prints a log, and says so where there is nothing to print.
func showLog(ctx context.Context, t *term.Terminal, cl *client.Client, q api.LogQuery, out io.Writer) error {
	shown := false
	silence := time.AfterFunc(silentLog, func() {
		if q.Follow {
			t.Say("no output yet; waiting for the log (Ctrl-C stops)")
		}
	})
	defer silence.Stop()
	err := cl.Log(ctx, q, func(chunk api.LogChunk) {
		if chunk.Restarted {
			t.Say("— %s was started again —", chunk.Path)
		}
		if text := chunk.Bytes(); len(text) > 0 {
			silence.Stop()
			shown = true
			_, _ = out.Write(text) // nobody reads: Ctrl-C, or the end, comes
		}
	})
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotReady && e.Hint == "" {
		e.Hint = "the job may not have written anything yet: `tunctl logs -f` waits for it"
	}
	if err == nil && !shown && ctx.Err() == nil {
		t.Say("the log is empty so far")
	}
	return err
}

// logQuery is whose log is wanted. The log of a job without a session is on a host that
// we may have to connect to.
func logQuery(ctx context.Context, c *cli.Context, t *term.Terminal, p home.Paths) (api.LogQuery, error) {
	q := api.LogQuery{Follow: c.Bool("follow"), Secrets: c.Bool("secrets")}
	var err error
	switch c.NArg() {
	case 0, 1:
		q.Session, err = chooseSession(ctx, c, t, p, choice{[]func(api.Session) bool{hasLiveJob, hasJob}, "no session has a job"})
	case 2:
		q.Host, q.Job = c.Args().Get(0), c.Args().Get(1)
		_, err = connected(ctx, c, t, q.Host)
	default:
		err = usagef("unexpected argument %q: logs takes a session, or a host and a job", c.Args().Get(2))
	}
	return q, err
}
