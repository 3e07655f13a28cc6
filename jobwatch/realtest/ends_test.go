//go:build linux

package realtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lab/real"
	"tunctl/jobwatch"
)

func TestEndsAreToldWithoutAccountingUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	failed := b.watch(b.submit("exit 7\n").ID)
	if job := b.awaitState(failed, api.JobFailed); job.Exit == nil || *job.Exit != 7 || !strings.Contains(job.Hint, "status 7") {
		t.Errorf("failed %+v", job)
	}
	noFolder := b.watch(b.submit("true\n", "--output=/nowhere/at/all.log").ID)
	if job := b.awaitState(noFolder, api.JobFailed); !strings.Contains(job.Hint, "output file") {
		t.Errorf("without a folder for its log %+v", job)
	}
	finished := b.submit("true\n")
	b.awaitState(b.watch(finished.ID), api.JobFinished)
	recent, err := b.Recent(t.Context())
	if err != nil || !contains(recent, finished.ID, api.JobFinished) {
		t.Errorf("recent %+v, %v", recent, err)
	}
}

func TestARequeuedJobIsSeenOnItsOtherNodeUnderARealSlurm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.submit("sleep 600\n", "--requeue")
	x := b.watch(job.ID)
	first := b.awaitState(x, api.JobRunning)
	if _, err := b.lab.As("hpcuser", "scontrol", "requeue", job.ID); err != nil {
		t.Fatal(err)
	}
	b.await(x, "requeued", func(j api.Job) bool { return j.Restarts == 1 && j.State.Waiting() })
	// Slurm keeps a requeued job back for two minutes, unless it is told otherwise.
	if _, err := b.lab.Exec("ctl", "scontrol", "update", "JobId="+job.ID, "ExcNodeList="+first.Node, "StartTime=now"); err != nil {
		t.Fatal(err)
	}
	b.await(x, "running elsewhere", func(j api.Job) bool {
		return j.State == api.JobRunning && j.Restarts == 1 && j.Node != first.Node && j.Node != ""
	})
}

// TestARealSlurmWithAccounting has the tests that need the accounts and their database,
// one after the other at one lab: it takes longer to start than they do.
func TestARealSlurmWithAccounting(t *testing.T) {
	t.Parallel()
	real.StartWith(t, real.Options{Accounting: true})
	t.Run("remembers jobs", testAccountingRemembers)
	t.Run("tells clusters and processes apart", testClustersAndProcesses)
}

func testAccountingRemembers(t *testing.T) {
	b := benchOf(t, real.StartWith(t, real.Options{Accounting: true}))
	finished, failed := b.submit("true\n"), b.submit("exit 4\n")
	b.awaitState(b.watch(finished.ID), api.JobFinished)
	b.awaitState(b.watch(failed.ID), api.JobFailed)
	deadline := time.Now().Add(30 * time.Second) // the accounting lags
	for {
		recent, err := b.Recent(t.Context())
		if err == nil && contains(recent, finished.ID, api.JobFinished) && contains(recent, failed.ID, api.JobFailed) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("recent %+v, %v", recent, err)
		}
	}
	_, err := b.Submit(t.Context(), jobwatch.Submission{Tag: "acct1", Content: []byte("#!/bin/sh\n"), Base: "x.sh", Args: []string{"--account=staff"}})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeSubmit || e.Hint == "" {
		t.Errorf("another's account is refused as %#v", err)
	}
}

func contains(jobs []api.Job, id string, state api.JobState) bool {
	for _, j := range jobs {
		if j.ID == id && j.State == state {
			return true
		}
	}
	return false
}
