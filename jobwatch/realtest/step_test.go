//go:build linux

package realtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// onTerminal is a job as a person starts it at a terminal: what it prints goes there
// and nowhere else, and it reads what is typed.
const onTerminal = `python3 -c '
import os, subprocess, sys
keyboard, typing = os.pipe()
subprocess.run(["salloc", "--quiet", "--job-name=typed", "--time=10", "srun", "sh", "-c",
    "echo serving at http://$(hostname):8123/; cat; echo the input ended"], stdin=keyboard, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
' </dev/null >/dev/null 2>&1 &`

func TestWhatAJobWithoutALogPrintsIsHeardAndItsInputStaysOpenUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if out, err := b.lab.As("hpcuser", "sh", "-c", onTerminal); err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { _, _ = b.lab.As("hpcuser", "scancel", "--name=typed") })
	job := b.found(jobwatch.Query{Name: "typed"})
	if job = b.awaitState(b.watch(job.ID), api.JobRunning); job.Log != "" {
		t.Fatalf("it has a log: %+v", job)
	}
	for range 2 { // the second time shows what the first one did to it
		out := b.heard(job.ID, "serving at http://"+job.Node+":8123/")
		if strings.Contains(out, "the input ended") {
			t.Fatalf("listening ended the program's input: %q", out)
		}
	}
}

// found waits until there is such a job.
func (b *bench) found(q jobwatch.Query) api.Job {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for {
		job, ok, err := b.Find(ctx, q)
		if err != nil {
			b.t.Fatal(err)
		}
		if ok {
			return job
		}
	}
}

// heard listens to a job until it has printed words.
func (b *bench) heard(id, words string) string {
	b.t.Helper()
	for range 10 { // its step may have yet to start
		out, err := b.StepOutput(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if strings.Contains(string(out), words) {
			return string(out)
		}
	}
	b.t.Fatalf("job %s never said %q", id, words)
	return ""
}
