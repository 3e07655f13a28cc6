package main

import (
	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func logsCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a session's job",
		ArgsUsage: "[SESSION]",
		Description: "A log may hold codes that move the cursor, rename the window or clear the screen. On a\n" +
			"terminal only its text and colours are shown; a file or a pipe gets all of it.\n\n" +
			"  tunctl logs jupyter           what the job has written so far\n" +
			"  tunctl logs -f                go on, until Ctrl-C\n" +
			"  tunctl logs jupyter > job.log",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on showing what is written, until Ctrl-C"},
			&cli.BoolFlag{Name: "secrets", Usage: "show tokens as they are instead of •••"},
		},
		BashComplete: completeSessions,
		Action: func(c *cli.Context) error {
			ctx, stop := interruptible(c.Context)
			defer stop()
			p, err := paths(c)
			if err != nil {
				return err
			}
			name, err := sessionName(c, p)
			if err != nil {
				return err
			}
			out := t.out
			if isTerminal(out) {
				safe := &tamed{out: out}
				defer safe.end()
				out = safe
			}
			q := api.LogQuery{Session: name, Follow: c.Bool("follow"), Secrets: c.Bool("secrets")}
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
