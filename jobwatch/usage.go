package jobwatch

import (
	"context"
	"errors"
	"maps"
	"time"
)

// Usage is what a scheduler's accounting has counted for a running job: coarse, and
// minutes old.
type Usage struct {
	At          time.Time     // when the scheduler answered
	Elapsed     time.Duration // since the job's start, as the scheduler counts it; 0: not known
	CPU         time.Duration // time of CPUs that the job has used in all
	CPUs        int           // 0: not known
	Memory      int64         // bytes; 0: not known
	MemoryLimit int64         // 0: none, or not known
}

// errNoUsage means that the host's scheduler has not counted what a job uses.
var errNoUsage = errors.New("the scheduler does not tell what a running job uses")

// Usage returns what the scheduler has counted for a running job. PBS tells it with every
// answer about the job, and is not asked; Slurm is asked once per Limits.Query for all jobs
// of the host, and in between the last answer is returned.
func (w *Watcher) Usage(ctx context.Context, ref string) (Usage, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return Usage{}, err
	}
	if !s.kind().asksUsage {
		return s.usage(ctx, w.sh, ref, 0)
	}
	w.mu.Lock()
	maps.DeleteFunc(w.usages, func(_ string, u Usage) bool { return time.Since(u.At) > usageFor })
	last, due := w.usages[ref], !time.Now().Before(w.nextUsage)
	if due {
		w.nextUsage = time.Now().Add(w.limits.WithJitter(w.limits.Query))
	}
	w.mu.Unlock()
	if !due {
		if last.At.IsZero() {
			return Usage{}, errNoUsage
		}
		return last, nil
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return Usage{}, err
	}
	defer unlock()
	u, err := s.usage(ctx, w.sh, ref, last.CPUs)
	if err != nil {
		return Usage{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usages[ref] = u
	return u, nil
}

// usageFor is how long the usage of a job is kept that nobody asks for.
const usageFor = time.Hour
