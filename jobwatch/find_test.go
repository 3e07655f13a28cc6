package jobwatch

import (
	"errors"
	"testing"

	"tunctl/internal/api"
)

func TestAJobThatEndsIsNotAdoptedByItsName(t *testing.T) {
	jobs := []api.Job{
		{ID: "7", Name: "jupyterlab", State: api.JobRunning},
		{ID: "8", Name: "jupyterlab", State: api.JobCompleting, Script: "/home/u/.tunctl/tag-1/job.sh"},
		{ID: "9", Name: "jupyterlab", State: api.JobCancelled},
	}
	if job, found, _ := (Query{Name: "jupyterlab"}).choose(newScheduler(slurmName), jobs); !found || job.ID != "7" {
		t.Errorf("by name: job %q, %v; want job 7", job.ID, found)
	}
	if _, found, _ := (Query{Name: "jupyterlab"}).choose(newScheduler(slurmName), jobs[1:]); found {
		t.Error("by name: a job that is about to end was found")
	}
	if job, found, _ := (Query{Tag: "tag-1"}).choose(newScheduler(slurmName), jobs); !found || job.ID != "8" {
		t.Errorf("by tag: job %q, %v; want job 8: it was submitted, whatever became of it", job.ID, found)
	}
}

func TestTheTasksOfAnArrayThatRunTogetherAreOneJob(t *testing.T) {
	task := func(id string, state api.JobState) api.Job { return api.Job{ID: id, Name: "chain", State: state} }
	jobs := []api.Job{
		task("54_[4-6]", api.JobQueued), task("54_3", api.JobRunning), task("54_1", api.JobRunning), task("54_2", api.JobRunning),
	}
	job, found, err := Query{Name: "chain"}.choose(newScheduler(slurmName), jobs)
	if err != nil || !found || job.ID != "54_1" || job.Hint != "" {
		t.Errorf("%+v, %v, %v", job, found, err)
	}
	_, _, err = Query{Name: "chain"}.choose(newScheduler(slurmName), append(jobs, task("60", api.JobRunning)))
	if e, ok := errors.AsType[*AmbiguousError](err); !ok || len(e.Jobs) != 2 {
		t.Errorf("another job of the name runs too: %v", err)
	}
}
