package jobwatch

import (
	"context"
	"maps"
	"sync"
	"time"

	"tunctl/jobwatch/sched"
)

// Usage returns what the scheduler has counted for a running job. PBS tells it with every
// answer about the job, and is not asked; Slurm is asked once per Limits.Query for all jobs
// of the host, and in between the last answer is returned.
func (w *Watcher) Usage(ctx context.Context, ref string) (sched.Usage, error) {
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return sched.Usage{}, err
	}
	if !s.Kind().AsksUsage {
		return s.Usage(ctx, w.host.sh, ref, 0)
	}
	last, due := w.usages.get(ref, w.host.limits.WithJitter(w.host.limits.Query))
	if !due {
		if last.At.IsZero() {
			return sched.Usage{}, sched.ErrNoUsage
		}
		return last, nil
	}
	unlock, err := w.host.turn.Take(ctx)
	if err != nil {
		return sched.Usage{}, err
	}
	defer unlock()
	u, err := s.Usage(ctx, w.host.sh, ref, last.CPUs)
	if err != nil {
		return sched.Usage{}, err
	}
	w.usages.set(ref, u)
	return u, nil
}

// usages are the last answers about what jobs use, by api.Job.Ref.
type usages struct {
	mu   sync.Mutex
	last map[string]sched.Usage
	next time.Time // when the scheduler may be asked again
}

// get returns the last answer about a job. due says that the caller is to ask again; others are not,
// for so long.
func (u *usages) get(ref string, pause time.Duration) (last sched.Usage, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.last, func(_ string, x sched.Usage) bool { return time.Since(x.At) > sched.UsageFor })
	if due = !time.Now().Before(u.next); due {
		u.next = time.Now().Add(pause)
	}
	return u.last[ref], due
}

func (u *usages) set(ref string, usage sched.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[ref] = usage
}
