//go:build linux

// Command transfer measures `tunctl cp` and HOST.tun against scp and ssh, and what a
// copy costs a notebook beside it: a real sshd on loopback, with and without a long or
// narrow way before it, the built program, and turns taken between the two. It prints
// medians, their ratio and the goal for it.
//
// It needs Linux, openssh-server and openssh-client.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"tunctl/internal/bench/table"
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
	name string
	run  func(ctx context.Context) ([]table.Row, error)
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
		{"large, loopback", func(ctx context.Context) ([]table.Row, error) {
			return g.large(ctx, fast, "loopback", size, 1.0, 0.9)
		}},
		{"large, 100 ms", func(ctx context.Context) ([]table.Row, error) { return g.large(ctx, slow, "100 ms", size, 3, 3) }},
		{"large, narrow", func(ctx context.Context) ([]table.Row, error) {
			return g.large(ctx, narrow, "100 Mbit/s, 20 ms", min(size, 50), 0.9, 0.9)
		}},
		{"small", func(ctx context.Context) ([]table.Row, error) { return g.small(ctx, files) }},
		{"command", g.command},
		{"page", func(ctx context.Context) ([]table.Row, error) { return g.pages(ctx, size) }},
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
