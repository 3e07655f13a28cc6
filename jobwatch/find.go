package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tunctl/internal/api"
)

// Query says which job to find: by the first of its fields that is set.
type Query struct {
	ID, Tag, Name string
	// Args are the words that the job was or would be submitted with. They may name
	// clusters that are to be looked at too.
	Args []string
}

// Find finds a job that somebody started before. By id it may have ended; by tag or
// by name it waits or runs. Of several that which is nearest to being of use is taken,
// the newest of those, which its hint says; several of a name that run are an
// AmbiguousError. Of an array the whole is found, not the task.
func (w *Watcher) Find(ctx context.Context, q Query) (api.Job, bool, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	few, sparing := s.(selective)
	if sparing && q.ID+q.Tag != "" {
		return w.findOne(ctx, few, q)
	}
	if c, ok := s.(clustered); ok && c.include(q.Args) {
		w.changed()
	}
	jobs, err := w.Jobs(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	if sparing {
		if jobs, err = w.named(ctx, few, jobs, q.Name); err != nil {
			return api.Job{}, false, err
		}
	}
	job, found, err := q.choose(s, jobs)
	switch {
	case err != nil || !found && q.ID == "":
		return api.Job{}, false, err
	case !found:
		return w.Detail(ctx, q.ID)
	}
	job = w.completed(ctx, s, job)
	return s.asRequested(job, q.called(s, job.ID)), true, nil
}

// findOne finds a job whose id is known or lies with its tag, without a list.
func (w *Watcher) findOne(ctx context.Context, s selective, q Query) (api.Job, bool, error) {
	if q.ID != "" {
		job, found, err := w.Detail(ctx, q.ID)
		if found {
			job = s.asRequested(job, q.ID)
		}
		return job, found, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	defer leave()
	job, err := s.tagged(ctx, w.sh, q.Tag)
	if errors.Is(err, errNoJob) {
		return api.Job{}, false, nil
	}
	return w.markCancelled(job), err == nil && !job.State.Ended(), err
}

func (w *Watcher) named(ctx context.Context, s selective, jobs []api.Job, name string) ([]api.Job, error) {
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.named(ctx, w.sh, jobs, name)
}

// called is what the job that was found is called from now on.
func (q Query) called(s scheduler, found string) string {
	asked, _ := splitRef(q.ID)
	id := cmp.Or(asked, found)
	if a, ok := s.(arrays); ok && (asked == "" || a.several(asked)) {
		return a.whole(id)
	}
	return id
}

// completed adds what only the detail tells.
func (w *Watcher) completed(ctx context.Context, s scheduler, job api.Job) api.Job {
	if job.Log != "" && !s.terse() {
		return job
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return job
	}
	defer leave()
	detail, err := s.detail(ctx, w.sh, job.Ref())
	if err != nil {
		if !errors.Is(err, errNoJob) {
			w.log.Debug("no detail of a job", "job", job.ID, "err", err)
		}
		return job
	}
	if detail.Hint == "" {
		detail.Hint = job.Hint
	}
	return detail
}

// choose picks the job that is meant.
func (q Query) choose(s scheduler, jobs []api.Job) (job api.Job, found bool, err error) {
	if q.ID != "" {
		job, found = pick(s, jobs, q.ID)
		return job, found, nil
	}
	var matching []api.Job
	for _, job := range jobs {
		// A job that only has its name in common and is about to end serves nobody.
		ending := job.State == api.JobCompleting && q.Tag == ""
		if q.matches(job) && !job.State.Ended() && !ending {
			matching = append(matching, job)
		}
	}
	if len(matching) == 0 {
		return api.Job{}, false, nil
	}
	matching = oneOfEach(s, matching)
	slices.SortFunc(matching, func(a, b api.Job) int {
		return cmp.Or(cmp.Compare(nearness(a.State), nearness(b.State)), b.Submitted.Compare(a.Submitted), compareIDs(b.ID, a.ID))
	})
	job = matching[0]
	if len(matching) > 1 && q.Tag == "" {
		if matching[1].State == api.JobRunning {
			running := slices.DeleteFunc(matching, func(j api.Job) bool { return j.State != api.JobRunning })
			return api.Job{}, false, &AmbiguousError{Name: q.Name, Jobs: running}
		}
		if job.Hint == "" {
			job.Hint = fmt.Sprintf("the newest of %d such jobs", len(matching))
		}
	}
	return job, true, nil
}

// pick returns the job called id; of an array's tasks the first that runs, else the
// first that waits, else the last that ended.
func pick(s scheduler, jobs []api.Job, id string) (api.Job, bool) {
	var tasks []api.Job
	for _, job := range jobs {
		if !s.is(job, id) {
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
			return compareIDs(b.ID, a.ID)
		}
		return cmp.Or(cmp.Compare(nearness(a.State), nearness(b.State)), compareIDs(a.ID, b.ID))
	}), true
}

// nearness orders states by how near a job is to being of use, the nearest first.
func nearness(s api.JobState) int {
	switch s {
	case api.JobRunning:
		return 0
	case api.JobConfiguring:
		return 1
	case api.JobCompleting, api.JobQueued:
		return 2
	case api.JobUnknown:
		return 3
	case api.JobHeld:
		return 4
	}
	return 5
}

// oneOfEach leaves of the tasks of an array the one that stands for it.
func oneOfEach(s scheduler, jobs []api.Job) []api.Job {
	a, ok := s.(arrays)
	if !ok {
		return jobs
	}
	var kept []api.Job
	seen := map[string]bool{}
	for _, job := range jobs {
		whole := api.Job{ID: a.whole(job.ID), Cluster: job.Cluster}.Ref()
		if seen[whole] {
			continue
		}
		seen[whole] = true
		job, _ = pick(s, jobs, whole)
		kept = append(kept, job)
	}
	return kept
}

// AmbiguousError says that several jobs of a name run, between which only a person can
// choose.
type AmbiguousError struct {
	Name string
	Jobs []api.Job // those that run, the newest first
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	list := make([]string, len(e.Jobs))
	for i, job := range e.Jobs {
		list[i] = job.Ref()
		if job.Node != "" {
			list[i] += " on " + job.Node
		}
	}
	return fmt.Sprintf("%d jobs called %q are running: %s", len(list), e.Name, strings.Join(list, ", "))
}

func (q Query) matches(job api.Job) bool {
	if q.Tag != "" {
		return hasTag(job, q.Tag) || job.ID == q.Tag
	}
	return q.Name != "" && job.Name == q.Name
}

var leadingNumber = regexp.MustCompile(`^\d+`)

// compareIDs orders ids by age as well as ids can: by their number, then their text.
func compareIDs(a, b string) int {
	x, _ := strconv.ParseInt(leadingNumber.FindString(a), 10, 64)
	y, _ := strconv.ParseInt(leadingNumber.FindString(b), 10, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
