package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/home"
)

func logsCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a session's job, or of any job of yours",
		ArgsUsage: "[SESSION | HOST JOB]",
		Description: "A log may hold codes that move the cursor, rename the window or clear the screen. On a\n" +
			"terminal only its text and colours are shown; a file or a pipe gets all of it.\n\n" +
			"  tunctl logs jupyter           what the job has written so far\n" +
			"  tunctl logs -f                go on, until Ctrl-C\n" +
			"  tunctl logs narval 4711       a job that belongs to no session\n" +
			"  tunctl logs jupyter > job.log",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on showing what is written, until Ctrl-C"},
			&cli.BoolFlag{Name: "secrets", Usage: "show tokens as they are instead of •••"},
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
			out := t.out
			if isTerminal(out) {
				safe := &tamed{out: out}
				defer safe.end()
				out = safe
			}
			err = client.New(p).Log(ctx, q, func(chunk api.LogChunk) {
				if chunk.Restarted {
					t.say("— %s begins anew —", chunk.Path)
				}
				_, _ = out.Write(chunk.Bytes()) // nobody reads: Ctrl-C, or the end, comes
			})
			if ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// logQuery is whose log is wanted. The log of a job is on a host, which is connected to
// if need be.
func logQuery(ctx context.Context, c *cli.Context, t *terminal, p home.Paths) (api.LogQuery, error) {
	q := api.LogQuery{Follow: c.Bool("follow"), Secrets: c.Bool("secrets")}
	var err error
	switch c.NArg() {
	case 0, 1:
		q.Session, err = sessionName(c, p)
	case 2:
		q.Host, q.Job = c.Args().Get(0), c.Args().Get(1)
		_, err = connected(ctx, c, t, q.Host)
	default:
		err = usagef("logs takes a session, or a host and a job: %q is one too many", c.Args().Get(2))
	}
	return q, err
}
