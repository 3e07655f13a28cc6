//go:build linux

package realjobs

import (
	"errors"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/dev/real"
	"tunctl/internal/dev/wait"
	"tunctl/jobwatch"
)

// TestARealSlurmWithAccounting has the tests that need the accounting database. They share one
// lab, one after the other, because its start takes longer than they do.
func TestARealSlurmWithAccounting(t *testing.T) {
	t.Parallel()
	real.StartWith(t, real.Options{Accounting: true})
	t.Run("remembers jobs", testAccountingRemembers)
	t.Run("tells clusters and processes apart", testClustersAndProcesses)
	t.Run("is looked at by its users", testLook)
	t.Run("says what is free", testFree)
}

func testAccountingRemembers(t *testing.T) {
	f := fixtureOf(t, real.StartWith(t, real.Options{Accounting: true}))
	finished, failed := f.submit("true\n"), f.submit("exit 4\n")
	f.awaitState(f.watch(finished.ID), api.JobFinished)
	f.awaitState(f.watch(failed.ID), api.JobFailed)
	deadline := time.Now().Add(wait.Limit) // the accounting is late
	for {
		recent, err := f.Recent(t.Context())
		if err == nil && contains(recent, finished.ID, api.JobFinished) && contains(recent, failed.ID, api.JobFailed) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("recent %+v, %v", recent, err)
		}
	}
	_, err := f.Submit(t.Context(), jobwatch.Submission{Tag: "acct1", Content: []byte("#!/bin/sh\n"), Base: "x.sh", Args: []string{"--account=staff"}})
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
