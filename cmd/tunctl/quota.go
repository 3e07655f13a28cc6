package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

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
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: interruptibleAction(t, quota),
	}
}

func quota(ctx context.Context, inv *invocation) error {
	if err := inv.atMostOne("host"); err != nil {
		return err
	}
	host := inv.Args().First()
	if inv.NArg() == 0 {
		var err error
		if host, err = inv.onlyHost(); err != nil {
			return err
		}
	}
	if err := inv.connectHost(ctx, host); err != nil {
		return err
	}
	answer, err := inv.client.Quota(ctx, host)
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(answer.Reports)
	}
	for i, r := range answer.Reports {
		if i > 0 {
			fmt.Fprintln(inv.Out)
		}
		fmt.Fprintf(inv.Out, "%s: %s\n%s\n", host, inv.Paint(term.Bold, r.Command), r.Output)
		if r.Exit != 0 {
			inv.Say("tunctl: %s exited with status %d", r.Command, r.Exit)
		}
	}
	return nil
}
