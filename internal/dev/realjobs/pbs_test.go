//go:build linux

package realjobs

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// TestAJobsLifeUnderARealPBS needs TUNCTL_PBS_HOST, an ssh host whose login needs no user.
// It uses the default limits, so it takes a while.
func TestAJobsLifeUnderARealPBS(t *testing.T) {
	host := os.Getenv("TUNCTL_PBS_HOST")
	if host == "" {
		t.Skip("TUNCTL_PBS_HOST names no host with PBS")
	}
	w := jobwatch.NewWatcher(login{host}, jobwatch.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = w.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	f := &fixture{Watcher: w, t: t}
	if name, err := f.Scheduler(ctx); err != nil || name != "pbs" {
		t.Fatalf("scheduler %q, %v", name, err)
	}
	tag := fmt.Sprintf("t%d", time.Now().UnixNano())
	script := jobwatch.Submission{
		Tag: tag, Content: []byte("#!/bin/bash\n#PBS -l walltime=00:05:00\necho hello\nsleep 240\n"), Base: "job.sh",
	}
	job, err := f.Submit(ctx, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Cancel(context.WithoutCancel(ctx), job.ID) })
	if again, err := f.Submit(ctx, script); err != nil || again.ID != job.ID {
		t.Errorf("the same submission again is job %q, %v; want job %s", again.ID, err, job.ID)
	}
	x := f.watch(job.ID)
	running := f.awaitFor(x, time.Hour, "running", func(j api.Job) bool { return j.State == api.JobRunning })
	if running.Node == "" || running.Log == "" {
		t.Errorf("running %+v", running)
	}
	if err := f.Cancel(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	f.awaitFor(x, 10*time.Minute, "over", func(j api.Job) bool { return j.State.Ended() })
}
