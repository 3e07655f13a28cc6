// Command testreport runs "go test -json" and shows what the user, or CI, wants to see
// of it: go test's own closing line of each package as soon as it is over, now and then
// what runs, what failed in full, and at the end the slowest tests, what was not run and why, and how many
// tests there were. On Linux it fails, too, where a process is left that tests have started.
//
//	testreport go test -race ./...
//
// It ends with the exit code of go test, or with 1.
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
	code, err := run(argv, os.Stdout, endingTime)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// progressEvery is how often to say what runs: a package of tests, or what it is compiled
// from, can take minutes.
const progressEvery = time.Minute

// endingTime is how long processes may take to end after the tests that started them.
const endingTime = 2 * time.Minute

// run runs a command that prints the events of tests, and reports about them.
func run(argv []string, out io.Writer, ending time.Duration) (code int, err error) {
	ended, err := adopt()
	if err != nil {
		return 1, err
	}
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
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for reader := bufio.NewReader(events); ; {
			line, err := reader.ReadBytes('\n')
			lines <- line
			if err != nil {
				return // the command has ended, or is about to
			}
		}
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for more := true; more; {
		var line []byte
		select {
		case line, more = <-lines:
			r.line(line)
		case <-tick.C:
			r.progress(time.Since(began))
		case <-ended:
			bury(cmd.Process.Pid)
		}
	}
	err = cmd.Wait()
	if err != nil {
		ending = 0 // tests that fail need not end what they started
	}
	limited, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	leftovers := left(limited)
	r.tellLeft(leftovers)
	r.end(time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), err == nil && leftovers == nil)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if leftovers != nil {
		code = 1
	}
	return code, err
}
