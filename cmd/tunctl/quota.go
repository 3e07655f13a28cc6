package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
)

func quotaCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "quota",
		Usage:     "show what is left of your allocation and your disk space on a host",
		ArgsUsage: "HOST",
		Description: "Runs the host's own programs for that, as its site names them (`tunctl sites SITE`), over the\n" +
			"connection that is there anyway; logs in first where there is none.",
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print it as JSON"}},
		BashComplete: completeHosts,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef("quota takes one host")
			}
			ctx, stop := interruptible(c.Context)
			defer stop()
			err := quota(ctx, c, t, c.Args().First())
			if c.Err() == nil && ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

func quota(ctx context.Context, c *cli.Context, t *terminal, host string) error {
	cl, err := connected(ctx, c, t, host)
	if err != nil {
		return err
	}
	answer, err := cl.Quota(ctx, host)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return t.indented(answer.Reports)
	}
	for i, r := range answer.Reports {
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		fmt.Fprintf(t.out, "%s: %s\n%s\n", host, t.paint(bold, r.Command), r.Output)
		if r.Exit != 0 {
			t.say("tunctl: %s ended with status %d", r.Command, r.Exit)
		}
	}
	return nil
}

// connected returns a client of the agent, which is logged in to the host.
func connected(ctx context.Context, c *cli.Context, t *terminal, host string) (*client.Client, error) {
	p, err := paths(c)
	if err != nil {
		return nil, err
	}
	cl, st, err := t.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, h := range st.Hosts {
		if h.Alias == host && h.State == api.HostUp {
			return cl, nil
		}
	}
	return cl, login(ctx, c, t, host)
}
