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
		ArgsUsage: "[HOST]",
		Description: "Runs the host's own programs for that, as its site names them (`tunctl sites SITE`), over the\n" +
			"connection that is there anyway; logs in first where there is none. Without HOST: the\n" +
			"config's only host.\n\n" +
			"  tunctl quota narval\n" +
			"  tunctl quota narval --json",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print it as JSON"}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("quota takes one host: %q is one too many", c.Args().Get(1))
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
