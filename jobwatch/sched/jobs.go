package sched

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// Pick returns the job with that id; of an array's tasks the first that runs, else the
// first that waits, else the last that ended.
func Pick(s Scheduler, jobs []api.Job, id string) (api.Job, bool) {
	var tasks []api.Job
	for _, job := range jobs {
		if !s.Matches(job, id) {
			continue
		}
		if job.ID == id {
			return job, true
		}
		tasks = append(tasks, job)
	}
	if len(tasks) == 0 {
		return api.Job{}, false
	}
	return slices.MinFunc(tasks, func(a, b api.Job) int {
		if a.State.Ended() && b.State.Ended() {
			return CompareIDs(b.ID, a.ID)
		}
		return cmp.Or(CompareReadiness(a, b), CompareIDs(a.ID, b.ID))
	}), true
}

// CompareReadiness orders jobs by how close they are to running, the closest first.
func CompareReadiness(a, b api.Job) int { return cmp.Compare(readiness[a.State], readiness[b.State]) }

// readiness orders states by how close the job is to running, the closest first; others are last.
var readiness = map[api.JobState]int{
	api.JobRunning: -5, api.JobConfiguring: -4, api.JobCompleting: -3, api.JobQueued: -3, api.JobUnknown: -2, api.JobHeld: -1,
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// CompareIDs orders ids by age, as far as they show it: by number, then by text.
func CompareIDs(a, b string) int {
	x, _ := strconv.ParseInt(leadingNumber.FindString(a), 10, 64)
	y, _ := strconv.ParseInt(leadingNumber.FindString(b), 10, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// SplitRef splits an api.Job.Ref. Any other text with a semicolon is an id.
func SplitRef(ref string) (id, cluster string) {
	if m := clusterRef.FindStringSubmatch(ref); m != nil {
		return m[1], m[2]
	}
	return ref, ""
}

var clusterRef = regexp.MustCompile(`^(\d[^;]*);([A-Za-z0-9_][A-Za-z0-9_.-]*)$`)

// WholeRef is what the submit command would have printed for a job: of a task, its array.
func WholeRef(s Scheduler, job api.Job) (ref string) {
	job.ID = s.ArrayOf(job.ID)
	return job.Ref()
}

// AsTask returns job with the id that it was requested by. If its own id is that of a task, which
// follows the array's id and a separator, the number of the task goes to api.Job.Task.
func AsTask(job api.Job, id, separator string) api.Job {
	if task, ok := strings.CutPrefix(job.ID, id+separator); ok && job.Task == "" && strings.Trim(task, "0123456789") == "" {
		job.Task = task
	}
	job.ID = id
	return job
}

// JobsFrom are the jobs in what a scheduler prints.
func JobsFrom[R any](records []R, job func(R) api.Job) []api.Job {
	jobs := make([]api.Job, len(records))
	for i, r := range records {
		jobs[i] = job(r)
	}
	return jobs
}

// PickRecord is Pick, and returns the record of the job too.
func PickRecord[R any](s Scheduler, records []R, jobOf func(R) api.Job, id string) (job api.Job, r R, ok bool) {
	jobs := JobsFrom(records, jobOf)
	if job, ok = Pick(s, jobs, id); ok {
		r = records[slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == job.ID })]
	}
	return job, r, ok
}
