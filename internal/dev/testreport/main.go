// Command testreport runs "go test -json" and shows what a person, or CI, wants to see
// of it: go test's own closing line of each package as soon as it is over, what failed
// in full, and at the end the slowest tests, what was not run and why, and how many
// tests there were.
//
//	testreport go test -race ./...
//
// It ends with the exit code of go test.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 || os.Args[2] != "test" {
		fmt.Fprintln(os.Stderr, "usage: testreport go test [ARGUMENT...]")
		os.Exit(2)
	}
	argv := slices.Insert(os.Args[1:], 2, "-json")
	code, err := run(argv, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs a command that prints the events of tests, and reports about them.
func run(argv []string, out io.Writer) (code int, err error) {
	// A terminal's Ctrl-C is go test's, too: it ends, and what was seen is told.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(os.Interrupt)
	began := time.Now()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // it runs what its command line says
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(out)
	reader := bufio.NewReader(events)
	for {
		line, err := reader.ReadBytes('\n')
		r.line(line)
		if err != nil {
			break // the command has ended, or is about to
		}
	}
	err = cmd.Wait()
	r.end(time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), err == nil)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
