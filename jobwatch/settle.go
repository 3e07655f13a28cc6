package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"tunctl/internal/api"
)

// detailsPerRound bounds how many jobs are asked about one by one after a query.
const detailsPerRound = 8

// settle tells each watch what the list says of its job, and asks one by one about
// those that are gone from it or whose log is not known.
func (w *Watcher) settle(ctx context.Context, s scheduler, jobs []api.Job) {
	if few, ok := s.(selective); ok {
		w.settleByBudget(ctx, few, jobs)
		return
	}
	asked := 0
	for _, x := range w.open() {
		job, listed := pick(s, jobs, x.id)
		if s.terse() {
			job.Log = "" // to read it, one must know for certain
		}
		if listed && !x.wantsDetail(s, job) {
			x.tell(s, job)
			continue
		}
		if asked++; asked > detailsPerRound {
			w.Nudge()
			return
		}
		w.settleByDetail(ctx, s, x, job, listed)
	}
}

// settleByBudget tells each watch what the list says, and spends the connections that
// are left of this round on those of which least is known, or longest ago.
func (w *Watcher) settleByBudget(ctx context.Context, s selective, jobs []api.Job) {
	watches := w.open()
	for _, x := range watches {
		job, listed := pick(s, jobs, x.id)
		job = x.supplemented(job)
		first := (!listed || x.wantsDetail(s, job)) && x.outdateDetail()
		if listed && !first {
			x.tell(s, job)
		}
	}
	slices.SortStableFunc(watches, func(a, b *Watch) int { return a.lastDetail().Compare(b.lastDetail()) })
	left := w.limits.Connections - 1
	for _, x := range watches[:min(left, len(watches))] {
		job, listed := pick(s, jobs, x.id)
		w.settleByDetail(ctx, s, x, x.supplemented(job), listed)
	}
	if len(watches) > left && watches[left].lastDetail().IsZero() {
		w.Nudge() // it has its turn in the next round
	}
}

func (w *Watcher) settleByDetail(ctx context.Context, s scheduler, x *Watch, job api.Job, listed bool) {
	id := x.id
	if listed {
		id = job.Ref()
	}
	detail, err := s.detail(ctx, w.sh, id)
	if err != nil {
		x.noteNoDetail()
	}
	switch {
	case err == nil:
		x.noteDetail()
		x.tell(s, detail)
	case listed:
		w.log.Debug("no detail of a job", "job", id, "err", err)
		x.tell(s, job)
	case errors.Is(err, errNoJob):
		w.settleGone(s, x)
	default:
		w.log.Debug("no record of a job that left the queue", "job", id, "err", err)
	}
}

// settleGone tells a watch that the scheduler does not know its job, once that is to be
// believed.
func (w *Watcher) settleGone(s scheduler, x *Watch) {
	if !x.missing() {
		w.log.Debug("the scheduler does not know a new job yet", "job", x.id)
		return
	}
	x.tell(s, x.gone(s))
}

// open returns the watches whose jobs have not ended.
func (w *Watcher) open() []*Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []*Watch
	for x := range w.watches {
		if !x.over() {
			open = append(open, x)
		}
	}
	slices.SortFunc(open, func(a, b *Watch) int { return compareIDs(a.id, b.id) })
	return open
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
