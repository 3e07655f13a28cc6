package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"tunctl/internal/api"
	"tunctl/internal/show"
	"tunctl/internal/term"
)

func quotaCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "quota",
		Usage:     "show your remaining allocation and disk space on a host",
		ArgsUsage: "[HOST]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "refresh", Usage: "run the commands now, not once an hour"},
			&cli.BoolFlag{Name: "raw", Usage: "print what the commands printed, without the table"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invokeInterruptible(t, atMost(1, "one host", ofHost(quota))),
	}
}

func quota(ctx context.Context, inv *invocation, host string) error {
	answer, err := inv.quotaOf(ctx, host)
	if err != nil {
		return err
	}
	if inv.Bool("json") {
		return inv.PrintIndentedJSON(answer)
	}
	if age := time.Since(answer.At); age > time.Minute {
		inv.Say("as of %s; `tunctl quota %s --refresh` asks again", api.ClockText(answer.At, time.Now()), host)
	}
	if len(answer.Balances) > 0 && !inv.Bool("raw") {
		if err := inv.PrintTable(show.Balances(answer.Balances)); err != nil {
			return err
		}
	}
	inv.printReports(host, answer)
	return nil
}

// quotaOf asks the agent, which may know the answer, and connects to the host if it does not.
func (inv *invocation) quotaOf(ctx context.Context, host string) (api.QuotaResponse, error) {
	req := api.QuotaRequest{Host: host, Refresh: inv.Bool("refresh")}
	if _, err := inv.ensureAgent(ctx); err != nil {
		return api.QuotaResponse{}, err
	}
	answer, err := inv.client.Quota(ctx, req)
	if !api.HasCode(err, api.CodeUnreachable) {
		return answer, err
	}
	if err := inv.connectHost(ctx, host, inv.login); err != nil {
		return api.QuotaResponse{}, err
	}
	return inv.client.Quota(ctx, req)
}

// printReports prints what is not in the table.
func (inv *invocation) printReports(host string, answer api.QuotaResponse) {
	raw := inv.Bool("raw")
	printed := len(answer.Balances) > 0 && !raw
	for _, r := range answer.Reports {
		switch {
		case raw:
		case r.Read:
			continue
		case r.Exit == 0 && !strings.ContainsAny(r.Output, "0123456789"): // sshare prints the head of its table also where Slurm counts no use
			inv.Say("%s: %s reports no balance; `tunctl quota %s --raw` shows what it printed", host, r.Command, host)
			continue
		}
		if printed {
			fmt.Fprintln(inv.Out)
		}
		printed = true
		fmt.Fprintf(inv.Out, "%s: %s\n%s\n", host, inv.Paint(term.Bold, r.Command), r.Output)
		if r.Exit != 0 {
			inv.Say("tunctl: %s exited with status %d", r.Command, r.Exit)
		}
	}
}
