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

func jobsCommand(t *term.Terminal) *cli.Command {
	return &cli.Command{
		Name:      "jobs",
		Usage:     "list your jobs on a host, why they wait and how long they run",
		ArgsUsage: "[HOST]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "include jobs that ended within the last day"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: invokeInterruptible(t, atMost(1, "one host", listJobs)),
	}
}

func listJobs(ctx context.Context, inv *invocation) error {
	list := []api.HostJob{}
	ask := func(host string) (api.JobsResponse, error) { return inv.client.Jobs(ctx, host, inv.Bool("all")) }
	hosts, failed, err := askHosts(ctx, inv, ask, func(host string, answer api.JobsResponse, _ error) {
		for _, j := range answer.Jobs {
			list = append(list, api.HostJob{Host: host, Job: j})
		}
	})
	switch {
	case err != nil || len(failed) == len(hosts):
	case inv.Bool("json"):
		err = inv.PrintIndentedJSON(list)
	case len(list) > 0:
		err = inv.PrintTable(show.Jobs(list, len(hosts) > 1, time.Now()))
	case len(failed) == 0:
		inv.Say("you have no jobs on %s", strings.Join(hosts, ", "))
	}
	return reportFailures(inv.Terminal, append(failed, err))
}

// askHosts asks the hosts of a command, one after the other, and connects to them first. each gets the answer
// of a host, or why there is none: a host that fails keeps no other from answering.
func askHosts[T any](ctx context.Context, inv *invocation, ask func(host string) (T, error), each func(host string, answer T, err error)) (hosts []string, failed []error, err error) {
	st, err := inv.ensureAgent(ctx)
	if err == nil {
		hosts, err = jobHosts(inv, st)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, host := range hosts {
		var answer T
		err := inv.connectHost(ctx, host, inv.login)
		if err != nil && len(hosts) > 1 {
			err = fmt.Errorf("%s: %w", host, err)
		}
		if err == nil {
			inv.Draw("asking the scheduler…")
			answer, err = ask(host)
			inv.Draw("")
		}
		if ctx.Err() != nil {
			return hosts, nil, ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
		}
		each(host, answer, err)
	}
	return hosts, failed, nil
}

// jobHosts are the hosts to list: those named, the connected ones, or the only one in the
// config.
func jobHosts(inv *invocation, st api.Status) ([]string, error) {
	if inv.NArg() > 0 {
		return inv.Args().Slice(), nil
	}
	var hosts []string
	for _, h := range st.Hosts {
		if h.State == api.HostUp {
			hosts = append(hosts, h.Alias)
		}
	}
	if len(hosts) > 0 {
		return hosts, nil
	}
	host, err := inv.onlyHost()
	return []string{host}, err
}
