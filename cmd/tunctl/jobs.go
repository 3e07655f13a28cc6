package main

import (
	"context"
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
	st, err := inv.ensureAgent(ctx)
	if err != nil {
		return err
	}
	hosts, err := jobHosts(inv, st)
	if err != nil {
		return err
	}
	list, failed := collectJobs(ctx, hosts, func(host string) ([]api.Job, error) {
		if !isConnected(st, host) {
			if err := inv.authenticate(ctx, host, api.KeepNot); err != nil {
				return nil, err
			}
		}
		inv.Draw("asking the scheduler…")
		defer inv.Draw("")
		answer, err := inv.client.Jobs(ctx, host, inv.Bool("all"))
		return answer.Jobs, err
	})
	switch {
	case len(failed) == len(hosts):
	case inv.Bool("json"):
		err = inv.PrintIndentedJSON(list)
	case len(list) > 0:
		err = inv.PrintTable(show.Jobs(list, len(hosts) > 1, time.Now()))
	case len(failed) == 0:
		inv.Say("you have no jobs on %s", strings.Join(hosts, ", "))
	}
	return reportFailures(inv.Terminal, append(failed, err))
}

// collectJobs lists the jobs of one host after the other, until ctx ends. The jobs of a host
// that fails are missing; those of the others are listed.
func collectJobs(ctx context.Context, hosts []string, jobsOf func(host string) ([]api.Job, error)) (list []api.HostJob, failed []error) {
	list = []api.HostJob{}
	for _, host := range hosts {
		if ctx.Err() != nil {
			break
		}
		found, err := jobsOf(host)
		if err != nil {
			failed = append(failed, err)
		}
		for _, j := range found {
			list = append(list, api.HostJob{Host: host, Job: j})
		}
	}
	return list, failed
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
