//go:build linux

// Command bench measures the forwards of the tunnel package against OpenSSH's, as
// people run it: `ssh -N -L`. It starts a real sshd on loopback, a delay proxy before
// it, the peers, and tunctl's side in a process of its own, takes turns between them,
// and prints medians, their ratio, and the goal for it.
//
// It needs Linux and openssh-server, and takes about five minutes. A row that the machine was
// too busy for is not judged, and no measurement takes longer than measureLimit.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) > 0 && args[0] == sideRole {
		return report(serveSide(args[1:]))
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
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

// measurement is a part of the bench that fills rows of the table.
type measurement struct {
	name  string
	quiet bool // it is judged on a quiet machine only
	run   func(ctx context.Context, b *testbed) ([]table.Row, error)
}

// bench runs everything. What takes long and costs nothing runs beside the rest.
func bench(ctx context.Context, only string) error {
	t, err := newTestbed(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	var rows []table.Row
	defer func() { table.Print(os.Stdout, rows) }() // also what was measured before something failed
	slow := beside(ctx, t, pick(only, []measurement{{"idle", false, measureIdle}, {"link", false, measureReturn}, {"stall", false, measureStalls}, {"crash", false, measureCrash}}))
	for _, m := range pick(only, []measurement{
		{"login", true, measureLogin},
		{"throughput", true, measureThroughput},
		{"six", true, measureSix},
		{"first byte", true, measureFirstByte},
		{"page", true, measurePage},
		{"beside", false, measureBeside},
		{"many", false, measureMany},
	}) {
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		more, err := m.limited(ctx, t)
		rows = append(rows, more...)
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "bench: waiting for what takes its time")
	more, err := slow()
	rows = append(rows, more...)
	return err
}

// measureLimit is longer than any measurement takes.
const measureLimit = 6 * time.Minute

func (m measurement) limited(ctx context.Context, t *testbed) ([]table.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	noise := ground.WatchNoise()
	rows, err := m.run(ctx, t)
	if busy := noise.Busy(0, 0); m.quiet {
		table.NotJudged(busy, rows...)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", m.name, err)
	}
	return rows, err
}

// pick are the measurements whose name has a word.
func pick(only string, all []measurement) []measurement {
	return slices.DeleteFunc(all, func(m measurement) bool { return !strings.Contains(m.name, only) })
}

// beside runs measurements beside others; the returned function waits for them.
func beside(ctx context.Context, t *testbed, all []measurement) func() ([]table.Row, error) {
	var wg sync.WaitGroup
	rows, errs := make([][]table.Row, len(all)), make([]error, len(all))
	for i, m := range all {
		wg.Go(func() {
			rows[i], errs[i] = m.limited(ctx, t)
		})
	}
	return func() ([]table.Row, error) {
		wg.Wait()
		return slices.Concat(rows...), cmp.Or(errs...)
	}
}
