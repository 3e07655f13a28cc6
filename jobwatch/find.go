package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tunctl/internal/api"
)

// Query says which job to find: by the first of its fields that is set.
type Query struct {
	ID, Tag, Name string
}

// Find finds a job that somebody started before. By id it may have ended; by tag or
// by name it waits or runs, and the newest of several is taken, which its hint says.
func (w *Watcher) Find(ctx context.Context, q Query) (api.Job, bool, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	few, sparing := s.(selective)
	if sparing && q.ID+q.Tag != "" {
		return w.findOne(ctx, few, q)
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
	job, found := q.newest(s, jobs)
	switch {
	case !found && q.ID == "":
		return api.Job{}, false, nil
	case !found:
		return w.Detail(ctx, q.ID)
	}
	job = w.completed(ctx, s, job)
	if q.ID != "" {
		job.ID = calledAs(job.ID, q.ID)
	}
	return job, true, nil
}

// findOne finds a job whose id is known or lies with its tag, without a list.
func (w *Watcher) findOne(ctx context.Context, s selective, q Query) (api.Job, bool, error) {
	if q.ID != "" {
		job, found, err := w.Detail(ctx, q.ID)
		if found {
			job.ID = calledAs(job.ID, q.ID)
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
	return w.asDoomed(job), err == nil && !job.State.Ended(), err
}

func (w *Watcher) named(ctx context.Context, s selective, jobs []api.Job, name string) ([]api.Job, error) {
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.named(ctx, w.sh, jobs, name)
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
	detail, err := s.detail(ctx, w.sh, job.ID)
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

func (q Query) newest(s scheduler, jobs []api.Job) (api.Job, bool) {
	if q.ID != "" {
		return pick(s, jobs, q.ID)
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
		return api.Job{}, false
	}
	job := slices.MaxFunc(matching, func(a, b api.Job) int {
		if c := a.Submitted.Compare(b.Submitted); c != 0 {
			return c
		}
		return compareIDs(a.ID, b.ID)
	})
	if len(matching) > 1 && job.Hint == "" {
		job.Hint = fmt.Sprintf("the newest of %d such jobs", len(matching))
	}
	return job, true
}

func (q Query) matches(job api.Job) bool {
	if q.Tag != "" {
		return hasTag(job, q.Tag) || job.ID == q.Tag
	}
	return q.Name != "" && job.Name == q.Name
}
