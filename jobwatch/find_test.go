package jobwatch

import (
	"testing"

	"tunctl/internal/api"
)

func TestAJobThatEndsIsNotAdoptedByItsName(t *testing.T) {
	jobs := []api.Job{
		{ID: "7", Name: "jupyterlab", State: api.JobRunning},
		{ID: "8", Name: "jupyterlab", State: api.JobCompleting, Script: "/home/u/.tunctl/tag-1/job.sh"},
		{ID: "9", Name: "jupyterlab", State: api.JobCancelled},
	}
	if job, found, _ := (Query{Name: "jupyterlab"}).choose(nil, jobs); !found || job.ID != "7" {
		t.Errorf("by name: job %q, %v; want job 7", job.ID, found)
	}
	if _, found, _ := (Query{Name: "jupyterlab"}).choose(nil, jobs[1:]); found {
		t.Error("by name: a job that is about to end was found")
	}
	if job, found, _ := (Query{Tag: "tag-1"}).choose(nil, jobs); !found || job.ID != "8" {
		t.Errorf("by tag: job %q, %v; want job 8: it was submitted, whatever became of it", job.ID, found)
	}
}
