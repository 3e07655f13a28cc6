package jobwatch

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tunctl/internal/dev/jobtest"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The names of the schedulers.
const (
	slurmName      = "slurm"
	pbsName        = "pbs"
	gridEngineName = "gridengine"
	noScheduler    = "none"
)

// newScheduler is a scheduler of that name, as a host has it.
func newScheduler(name string) sched.Scheduler { return kindNamed(name).New() }

// watcher is the Watcher of a host with that scheduler, with the limits of tests.
func watcher(r remote.Runner, scheduler string) *Watcher {
	return NewWatcher(r, Options{Scheduler: scheduler, Limits: jobtest.QuickLimits()})
}

func slurmWatcher(r remote.Runner) *Watcher { return watcher(r, slurmName) }

func plainWatcher(r remote.Runner) *Watcher { return watcher(r, noScheduler) }

// serving runs the Watcher's Serve until the test ends, or its synctest bubble.
func serving(t *testing.T, w *Watcher) *Watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = w.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return w
}

// order is a submission of a script that does nothing.
func order(tag string) Submission {
	return Submission{Tag: tag, Content: []byte("#!/bin/sh\n"), Base: "job.sh"}
}

// query asks the scheduler for the watched jobs, or for all.
func query(t *testing.T, w *Watcher, jobs scope) {
	t.Helper()
	w.changed()
	if err := w.query(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}
