// Package jobwatch handles jobs: it queries a host's scheduler, submits and cancels jobs,
// and follows their logs. Package detect finds the server's address in a log.
//
// It runs commands on the login node through a [Runner], and does not know SSH. Its two
// parts meet only in the agent:
//
//   - A [Watcher], one per host, talks to the scheduler: Slurm, PBS, Grid Engine, or none.
//     All watched jobs share one query; see [Limits].
//   - A [Follower] reads a job's log from an offset, in parts of limited size.
//
// Every command sent to a host is a constant with a script on its standard input, so that a
// person's login shell has nothing to interpret. Everything inside the script is quoted.
// Nothing of tunctl keeps running on the host.
package jobwatch

import (
	"context"
	"log/slog"
)

// Runner runs one command on the login node and returns its output. After an error it is
// not known whether the command was executed: the connection was lost, or ctx ended.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) (Result, error)
}

// Result is what a command printed and its exit status.
type Result struct {
	Stdout, Stderr []byte
	Exit           int
}

// Options configure a Watcher.
type Options struct {
	// Host is the host's name in messages.
	Host string
	// Scheduler is Slurm, PBS, GridEngine or None; if it is empty, the Watcher finds out.
	Scheduler string
	// Private is the folder for our files on the host, as text for double quotes of sh; its
	// last part is ".tunctl". "" is that of the home folder.
	Private string
	// Limits default to DefaultLimits.
	Limits Limits
	// Log may be nil.
	Log *slog.Logger
}
