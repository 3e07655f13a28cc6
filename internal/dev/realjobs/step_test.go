//go:build linux

package realjobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// onTerminal starts a job as from a terminal: its output goes only there, and it reads the
// terminal's input.
const onTerminal = `python3 -c '
import os, subprocess, sys
keyboard, typing = os.pipe()
subprocess.run(["salloc", "--quiet", "--job-name=typed", "--time=10", "srun", "sh", "-c",
    "echo serving at http://$(hostname):8123/; cat; echo the input ended"], stdin=keyboard, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
' </dev/null >/dev/null 2>&1 &`

func TestWhatAJobWithoutALogPrintsIsHeardAndItsInputStaysOpenUnderARealSlurm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if out, err := f.lab.As("hpcuser", "sh", "-c", onTerminal); err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { _, _ = f.lab.As("hpcuser", "scancel", "--name=typed") })
	job := f.waitForJob(jobwatch.Query{Name: "typed"})
	if job = f.awaitState(f.watch(job.ID), api.JobRunning); job.Log != "" {
		t.Fatalf("it has a log: %+v", job)
	}
	for range 2 { // the second time shows the effect of the first
		out := f.waitForOutput(job.ID, "serving at http://"+job.Node+":8123/")
		if strings.Contains(out, "the input ended") {
			t.Fatalf("listening ended the program's input: %q", out)
		}
	}
}

// waitForJob waits until the job exists.
func (f *fixture) waitForJob(q jobwatch.Query) api.Job {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for {
		job, ok, err := f.Find(ctx, q)
		if err != nil {
			f.t.Fatal(err)
		}
		if ok {
			return job
		}
	}
}

// waitForOutput reads a job's step output until it has words.
func (f *fixture) waitForOutput(id, words string) string {
	f.t.Helper()
	for range 10 { // its step may not have started yet
		out, err := f.StepOutput(f.t.Context(), id)
		if err != nil {
			f.t.Fatal(err)
		}
		if strings.Contains(string(out), words) {
			return string(out)
		}
	}
	f.t.Fatalf("job %s never said %q", id, words)
	return ""
}
