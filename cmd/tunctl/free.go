package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func freeCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "free",
		Usage:     "show what you may use now: idle nodes, free GPUs, waiting jobs",
		ArgsUsage: "[HOST...]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action:    invokeInterruptible(t, showFree),
	}
}

func showFree(ctx context.Context, inv *invocation) error {
	list := []api.Free{}
	ask := func(host string) (api.Free, error) { return inv.client.Free(ctx, host) }
	hosts, failed, err := askHosts(ctx, inv, ask, func(host string, free api.Free, err error) {
		if err != nil {
			free = api.Free{Host: host, Partitions: []api.Partition{}, Error: api.AsError(err)}
		}
		list = append(list, free)
	})
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		err = inv.PrintIndentedJSON(list)
	} else {
		err = printFree(inv, list)
	}
	if inv.NArg() == 0 {
		sayUnconnected(inv, hosts)
	}
	if len(failed) < len(hosts) { // the others were shown
		for _, one := range failed {
			printError(inv.Terminal, one)
		}
		return err
	}
	return reportFailures(inv.Terminal, failed)
}

// printFree prints a table for each host.
func printFree(inv *invocation, list []api.Free) error {
	for _, f := range list {
		if f.Error != nil {
			continue
		}
		fmt.Fprintf(inv.Out, "%s, as of %s\n", inv.Paint(term.Bold, f.Host), api.ClockText(f.At, time.Now()))
		if err := inv.PrintTable(show.Free(f)); err != nil {
			return err
		}
		if len(f.Problems) > 0 {
			inv.Say("not found out in time: %s", strings.Join(f.Problems, ", "))
		}
	}
	return nil
}

// sayUnconnected names the other hosts of the config.
func sayUnconnected(inv *invocation, shown []string) {
	for _, host := range readConfig(inv.paths).HostNames() {
		if !slices.Contains(shown, host) {
			inv.Say("%s is not connected: `tunctl free %s` logs in", host, host)
		}
	}
}
