package jobwatch

import (
	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
)

func slurmWatcher(r remote.Runner) *Watcher {
	return NewWatcher(r, Options{Scheduler: slurmName, Limits: jobtest.QuickLimits()})
}
