package jobwatch

import (
	"context"
	"slices"
	"time"

	"tunctl/internal/api"
)

// maxListed bounds a list of ended jobs.
const maxListed = "500"

// recently is how far back ended jobs are listed.
const recently = 24 * time.Hour

// Recent returns the person's jobs that ended within the last day, oldest first, as
// far as the host remembers them: Slurm without accounting knows the last minutes.
func (w *Watcher) Recent(ctx context.Context) ([]api.Job, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	jobs, err := s.recorded(ctx, w.sh)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !j.State.Ended() || !j.End.IsZero() && time.Since(j.End) > recently
	})
	slices.SortFunc(jobs, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	return jobs, nil
}
