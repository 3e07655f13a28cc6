package jobwatch

import (
	"maps"
	"slices"
	"time"

	"tunctl/internal/api"
)

// cancelledFor is how long a cancelled job is remembered at most. PBS goes on calling it
// running for up to 18 seconds, and where its node is down for much longer.
const cancelledFor = time.Hour

// rememberCancelled notes that a job was cancelled, so that nobody takes it for one that serves
// until the scheduler has ended it.
func (w *Watcher) rememberCancelled(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.cancelled, func(_ string, at time.Time) bool { return time.Since(at) > cancelledFor })
	w.cancelled[id] = time.Now()
}

// markCancelled is the job, about to end if we cancelled it.
func (w *Watcher) markCancelled(job api.Job) api.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markCancelledLocked([]api.Job{job})[0]
}

// markCancelledLocked returns the jobs, those that we cancelled as ones about to end.
func (w *Watcher) markCancelledLocked(jobs []api.Job) []api.Job {
	jobs = slices.Clone(jobs)
	for i, job := range jobs {
		if w.sched == nil || job.State.Ended() {
			continue
		}
		for id := range w.cancelled {
			if w.sched.is(job, id) {
				jobs[i].State, jobs[i].Hint = api.JobCompleting, "the job was cancelled and is about to end"
			}
		}
	}
	return jobs
}
