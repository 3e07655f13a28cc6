//go:build linux

package ground

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main is the main function of a command that measures the built program: it calls bench
// with the program's path, until an interrupt. If something that it needs is missing, it says
// that what is not measured, which is no failure.
func Main(what string, missing error, bench func(ctx context.Context, program string) error) {
	program := flag.String("tunctl", "bin/tunctl", "the built `PROGRAM`")
	flag.Parse()
	if missing != nil {
		fmt.Fprintf(os.Stderr, "bench: %s not measured: %v\n", what, missing)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	path, err := filepath.Abs(*program)
	if err == nil {
		err = bench(ctx, path)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
