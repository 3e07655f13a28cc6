//go:build linux

// Command start measures what the user waits for after the server of a new job listens:
// until `tunctl up` says that the page is ready, and until the same steps by hand do. The
// cluster is the lab of real parts: an sshd, and a Slurm that starts the job at once. The
// job's server listens two seconds later.
//
// It needs Linux, root, and the parts of internal/dev/install.sh; without them it says so.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
	"tunctl/internal/dev/real"
)

const (
	rounds = 5
	goal   = 2.5 // seconds
)

func main() {
	real.Role()
	ground.Main("the start of a job is", real.Check("ssh", "slurm"), bench)
}

func bench(ctx context.Context, program string) error {
	f, err := newField(program)
	if err != nil {
		return err
	}
	defer f.close()
	var rows []table.Row
	for _, m := range []struct {
		measure, bind string
		peer          string // "": nobody does that by hand
	}{
		{"page after its server listens, slowest of 5", "$(hostname)", "by hand, squeue and grep every 5 s"},
		{"… the server is on the node's loopback", "127.0.0.1", ""},
	} {
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.measure)
		row, err := f.measure(ctx, m.bind, m.peer)
		if err != nil {
			return fmt.Errorf("%s: %w", m.measure, err)
		}
		row.Measure = m.measure
		rows = append(rows, row)
	}
	table.Print(os.Stdout, rows)
	return nil
}

// measure takes turns between tunctl and the peer, if there is one, and returns the slowest
// round of each.
func (f *field) measure(ctx context.Context, bind, peer string) (table.Row, error) {
	if err := f.writeJob(bind); err != nil {
		return table.Row{}, err
	}
	const ours, theirs = "tunctl", "peer"
	waits := table.Samples{}
	for range rounds {
		wait, err := f.up(ctx)
		if err != nil {
			return table.Row{}, err
		}
		waits.Add(ours, wait.Seconds())
		if peer == "" {
			continue
		}
		if wait, err = f.byHand(ctx); err != nil {
			return table.Row{}, err
		}
		waits.Add(theirs, wait.Seconds())
	}
	row := table.Row{Peer: peer, Ours: slices.Max(waits[ours]), Unit: "s", Goal: fmt.Sprintf("≤ %.1f s", goal)}
	row.Reached = row.Ours <= goal
	if peer != "" {
		row.Theirs = slices.Max(waits[theirs])
	}
	return row, nil
}
