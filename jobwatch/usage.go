package jobwatch

import (
	"context"
	"maps"
	"time"

	"tunctl/jobwatch/sched"
)

// Usage returns what the scheduler has counted for a running job. PBS tells it with every
// answer about the job, and is not asked; Slurm is asked once per Limits.Query for all jobs
// of the host, and in between the last answer is returned.
func (w *Watcher) Usage(ctx context.Context, ref string) (sched.Usage, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return sched.Usage{}, err
	}
	if !s.Kind().AsksUsage {
		return s.Usage(ctx, w.sh, ref, 0)
	}
	w.mu.Lock()
	maps.DeleteFunc(w.usages, func(_ string, u sched.Usage) bool { return time.Since(u.At) > sched.UsageFor })
	last, due := w.usages[ref], !time.Now().Before(w.nextUsage)
	if due {
		w.nextUsage = time.Now().Add(w.limits.WithJitter(w.limits.Query))
	}
	w.mu.Unlock()
	if !due {
		if last.At.IsZero() {
			return sched.Usage{}, sched.ErrNoUsage
		}
		return last, nil
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return sched.Usage{}, err
	}
	defer unlock()
	u, err := s.Usage(ctx, w.sh, ref, last.CPUs)
	if err != nil {
		return sched.Usage{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usages[ref] = u
	return u, nil
}
