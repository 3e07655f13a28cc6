//go:build linux

// Command inside measures what the user has inside a running job: commands, a GPU, many
// connections at once and throughput, and what the WebSockets of a page cost that go through the job. The
// cluster is the lab of real parts, with a Slurm whose node has no sshd, at 40 ms from the laptop where
// waits are measured.
//
// It needs Linux, root, and the parts of internal/dev/install.sh; without them it says so.
package main

import (
	"context"
	"fmt"
	"os"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
	"tunctl/internal/dev/real"
)

func main() {
	real.Role()
	ground.Main("what runs inside a job is", real.Check("ssh", "slurm"), bench)
}

func bench(ctx context.Context, program string) error {
	f, err := newField(ctx, program)
	if err != nil {
		return err
	}
	defer f.close()
	var rows []table.Row
	for _, m := range []struct {
		name string
		run  func(context.Context) ([]table.Row, error)
	}{
		{"commands inside a job", f.commands},
		{"the job's GPU", f.seeGPU},
		{"24 connections", f.connections},
		{"throughput", f.throughput},
		{"upgrades of a page", f.upgrades},
	} {
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		more, err := m.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		rows = append(rows, more...)
	}
	table.Print(os.Stdout, rows)
	return nil
}
