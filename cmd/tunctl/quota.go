package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/client"
	"tunctl/internal/term"
)

func quotaCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "quota",
		Usage:     "show your remaining allocation and disk space on a host",
		ArgsUsage: "[HOST]",
		Description: "Runs the quota commands of the host's site (see `tunctl sites SITE`) over the existing connection;\n" +
			"logs in first if necessary. Without HOST: the only host in the config.\n\n" +
			"  tunctl quota narval\n" +
			"  tunctl quota narval --json",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("unexpected argument %q: quota takes one host", c.Args().Get(1))
			}
			host, err := quotaHost(c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c.Context)
			defer stop()
			err = quota(ctx, c, t, host)
			if c.Err() == nil && ctx.Err() != nil {
				return silentError(exitInterrupted)
			}
			return err
		},
	}
}

// quotaHost is the host that is named, or the config's only one.
func quotaHost(c *cli.Context) (string, error) {
	if c.NArg() == 1 {
		return c.Args().First(), nil
	}
	p, err := paths(c)
	if err != nil {
		return "", err
	}
	hosts := configuredHosts(p)
	if len(hosts) != 1 {
		return "", whichHost(c.Command.Name, hosts)
	}
	return hosts[0], nil
}

func quota(ctx context.Context, c *cli.Context, t *term.Terminal, host string) error {
	cl, err := connected(ctx, c, t, host)
	if err != nil {
		return err
	}
	answer, err := cl.Quota(ctx, host)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return t.PrintIndentedJSON(answer.Reports)
	}
	for i, r := range answer.Reports {
		if i > 0 {
			fmt.Fprintln(t.Out)
		}
		fmt.Fprintf(t.Out, "%s: %s\n%s\n", host, t.Paint(term.Bold, r.Command), r.Output)
		if r.Exit != 0 {
			t.Say("tunctl: %s exited with status %d", r.Command, r.Exit)
		}
	}
	return nil
}

// connected returns a client of the agent, which logs in to the host first if necessary.
func connected(ctx context.Context, c *cli.Context, t *term.Terminal, host string) (*client.Client, error) {
	p, err := paths(c)
	if err != nil {
		return nil, err
	}
	cl, st, err := connect(ctx, t, p)
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
