//go:build linux

// Command transfer measures `tunctl cp` and HOST.tun against scp and ssh: a real sshd
// on loopback, with and without a delay before it, the built program, and turns taken
// between the two. It prints medians, their ratio and the goal for it.
//
// It needs Linux, openssh-server and openssh-client.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	program := flag.String("tunctl", "bin/tunctl", "the built `PROGRAM`")
	size := flag.Int64("size", 1000, "of the large file, in `MB`")
	files := flag.Int("files", 2000, "how many small files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, *program, *size, *files); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// row is one line of the table.
type row struct {
	measure, peer string
	theirs, ours  time.Duration
	goal          float64 // how many times quicker than the peer; below 1: may be slower
}

func bench(ctx context.Context, program string, size int64, files int) error {
	g, err := newGround(ctx, program)
	if err != nil {
		return err
	}
	defer g.close()
	var rows []row
	defer func() { show(rows) }() // also what was measured before something failed
	for _, m := range []func(context.Context) ([]row, error){
		func(ctx context.Context) ([]row, error) { return g.large(ctx, "fast", "loopback", size, 1.0, 0.9) },
		func(ctx context.Context) ([]row, error) {
			return g.large(ctx, "slow", "100 ms", min(size, 200), 3, 3)
		},
		func(ctx context.Context) ([]row, error) { return g.small(ctx, files) },
		g.command,
	} {
		more, err := m(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return nil
}

func show(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tPEER\tTHEIRS\tTUNCTL\tTIMES QUICKER\tGOAL\t")
	for _, r := range rows {
		ratio := r.theirs.Seconds() / r.ours.Seconds()
		verdict := "reached"
		if ratio < r.goal {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f s\t%.2f s\t%.2f ×\t≥ %.2f ×\t%s\n", r.measure, r.peer, r.theirs.Seconds(), r.ours.Seconds(), ratio, r.goal, verdict)
	}
	_ = w.Flush() // to a terminal; there is nobody else to tell
}
