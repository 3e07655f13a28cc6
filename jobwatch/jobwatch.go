// Package jobwatch handles jobs: it queries a host's scheduler, submits and cancels jobs, and
// finds those that were started before. A [Watcher], one per host, talks to the scheduler: Slurm,
// PBS, Grid Engine, or none. All watched jobs share one query; see [remote.Limits].
//
// Package joblog follows the logs of jobs, and package detect finds the server's address in them.
// Scripts run on the login node by package remote; nothing here knows SSH.
package jobwatch

import (
	"log/slog"

	"tunctl/jobwatch/remote"
)

// Options configure a Watcher.
type Options struct {
	// Host is the host's name in messages.
	Host string
	// Scheduler is Slurm, PBS, GridEngine or None; if it is empty, the Watcher finds out.
	Scheduler string
	// Private is the folder for our files on the host, as text for double quotes of sh; its
	// last part is ".tunctl". "" is that of the home folder.
	Private string
	// Limits default to remote.DefaultLimits.
	Limits remote.Limits
	// Log may be nil.
	Log *slog.Logger
}
