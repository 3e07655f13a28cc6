package hosts

import (
	"slices"
	"testing"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/lists"
	"tunctl/jobwatch"
)

// TestJobsWithEnded: a job is listed once, also while the queue's list is older than its end.
func TestJobsWithEnded(t *testing.T) {
	at := time.Unix(1794702650, 0)
	list := []api.Job{
		{ID: "1", State: api.JobRunning},
		{ID: "2", State: api.JobQueued},
		{ID: "3", State: api.JobRunning, Start: at},
		{ID: "4", State: api.JobCompleting, Restarts: 1, Start: at},
		{ID: "5", State: api.JobQueued, Restarts: 1},
		{ID: "6", State: api.JobRunning, Restarts: 1, Start: at.Add(2 * time.Minute)},
	}
	var over []api.Job
	for _, id := range []string{"2", "3", "4", "5", "6", "7"} {
		over = append(over, api.Job{ID: id, State: api.JobFailed, End: at.Add(time.Minute)})
	}
	all := withEnded(list, over)
	slices.SortStableFunc(all, jobwatch.CompareJobs)
	got := lists.Map(all, func(j api.Job) string { return j.ID + " " + string(j.State) })
	if want := []string{"1 running", "6 running", "5 queued", "2 failed", "3 failed", "4 failed", "7 failed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
