//go:build linux

// Command transfer measures `tunctl cp` and HOST.tun against scp and ssh, and what a
// copy costs a notebook beside it: a real sshd on loopback, with and without a long or
// narrow way before it, the built program, and turns taken between the two. It prints
// medians, their ratio and the goal for it.
//
// It needs Linux, openssh-server and openssh-client, and takes about seven minutes. A row that
// the machine was too busy for is not judged, and no measurement takes longer than measureLimit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"tunctl/internal/dev/bench/ground"
	"tunctl/internal/dev/bench/table"
)

func main() { os.Exit(run()) }

func run() int {
	program := flag.String("tunctl", "bin/tunctl", "the built `PROGRAM`")
	size := flag.Int64("size", 200, "of the large file, in `MB`")
	files := flag.Int("files", 2000, "how many small files")
	only := flag.String("only", "", "measure only what has this `WORD` in its name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, *program, *only, *size, *files); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// measurement is a part of the bench that fills rows of the table.
type measurement struct {
	name  string
	quiet bool // it is judged on a quiet machine only
	run   func(ctx context.Context) ([]table.Row, error)
}

func bench(ctx context.Context, program, only string, size int64, files int) error {
	g, err := newField(ctx, program)
	if err != nil {
		return err
	}
	defer g.close()
	var rows []table.Row
	defer func() { table.Print(os.Stdout, rows) }() // also what was measured before something failed
	for _, m := range []measurement{
		{"large, loopback", true, func(ctx context.Context) ([]table.Row, error) {
			return g.large(ctx, fast, "loopback", size, 1.0, 0.9)
		}},
		// A copy up takes 19 round trips besides its data, almost as long as these: it looks for what another copy left,
		// and gives the file its name, mode and time when all has arrived. Its data move 4.5 times as fast as scp's.
		{"large, 100 ms", true, func(ctx context.Context) ([]table.Row, error) { return g.large(ctx, slow, "100 ms", size, 2.6, 3) }},
		{"large, narrow", false, func(ctx context.Context) ([]table.Row, error) {
			return g.large(ctx, narrow, "100 Mbit/s, 20 ms", min(size, 50), 0.9, 0.9)
		}},
		{"large, narrow, busy", false, func(ctx context.Context) ([]table.Row, error) {
			stop, err := ground.Load(ctx, busyProcesses)
			if err != nil {
				return nil, err
			}
			defer stop()
			return g.large(ctx, narrow, "100 Mbit/s, 20 ms, two busy processes", min(size, 50), 0.9, 0.9)
		}},
		{"small", true, func(ctx context.Context) ([]table.Row, error) { return g.small(ctx, files) }},
		{"command", true, g.command},
		{"page", true, func(ctx context.Context) ([]table.Row, error) { return g.pages(ctx, size) }},
	} {
		if !strings.Contains(m.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.name)
		more, err := m.limited(ctx)
		rows = append(rows, more...)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// measureLimit is longer than any measurement takes.
const (
	measureLimit  = 8 * time.Minute
	busyProcesses = 2
)

func (m measurement) limited(ctx context.Context) ([]table.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	noise := ground.WatchNoise()
	rows, err := m.run(ctx)
	if busy := noise.Busy(0, 0); m.quiet {
		table.NotJudged(busy, rows...)
	}
	return rows, err
}
