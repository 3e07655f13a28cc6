// Package jobwatch knows about jobs: it asks a host's scheduler for them, submits
// and cancels them, and follows their logs. Package detect reads from a log where a
// job serves.
//
// It is given a [Runner] that runs one command on the login node and knows nothing
// of how that comes about. Its halves meet only in the agent:
//
//   - A [Watcher], one per host, speaks to the scheduler: Slurm, PBS, or none at
//     all. Every watched job shares its one polite query; see [Limits].
//   - A [Follower] reads a job's log from an offset, in small bounded bites.
//
// Whatever is sent to a host is a constant command with a script on its standard
// input, so that a person's login shell has nothing to interpret, and everything
// inside the script is quoted. Nothing of ours stays resident on the host.
package jobwatch

import (
	"context"
	"log/slog"
)

// Runner runs one command on the login node and returns what it printed. An error
// means that the command's fate is unknown: the link was lost, or ctx is over.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) (Result, error)
}

// Result is what a command printed and its exit status.
type Result struct {
	Stdout, Stderr []byte
	Exit           int
}

// The names of the schedulers, as in the config file.
const (
	Slurm = "slurm"
	PBS   = "pbs"
	None  = "none"
)

// Options say how a Watcher behaves.
type Options struct {
	// Scheduler is Slurm, PBS or None; empty means to find out.
	Scheduler string
	// Limits default to DefaultLimits.
	Limits Limits
	// Log defaults to nowhere.
	Log *slog.Logger
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
