//go:build linux

// Command growth prints how tunctl's costs grow: with hosts and sessions, with the jobs
// in a scheduler's answer, with a log, with connections, and with the time that it is in
// use. It times nothing against a limit: what counts is that nothing grows faster than
// what it is for.
//
// It needs Linux and openssh-server, and takes about three minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"tunctl/internal/dev/bench/table"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 && args[0] == agentRole {
		return report(serveAgent(args[1:]))
	}
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	only := flags.String("only", "", "measure only what has this `WORD` in its name")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return report(bench(ctx, *only))
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, only string) error {
	var rows []table.Growth
	defer func() { table.PrintGrowth(os.Stdout, rows) }() // also what was measured before something failed
	for _, m := range []struct {
		name string
		run  func(context.Context) ([]table.Growth, error)
	}{
		{"hosts", measureHosts},
		{"connections", measureConnections},
		{"jobs", measureJobs},
		{"log", measureLogs},
		{"year", measureYear},
	} {
		if !strings.Contains(m.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		more, err := m.run(ctx)
		rows = append(rows, more...)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
