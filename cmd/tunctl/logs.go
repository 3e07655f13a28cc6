package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func logsCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a session's job",
		ArgsUsage: "[SESSION]",
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
			q := api.LogQuery{Session: name, Follow: c.Bool("follow"), Secrets: c.Bool("secrets")}
			err = client.New(p).Log(ctx, q, func(chunk api.LogChunk) {
				if chunk.Restarted {
					t.say("— %s begins anew —", chunk.Path)
				}
				fmt.Fprint(t.out, chunk.Text)
			})
			if ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}
