package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

// detailsPerRound bounds how many jobs are asked about one by one after a query.
const detailsPerRound = 8

// Serve makes the shared query for as long as anything is watched, until ctx is over.
func (w *Watcher) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() { w.lookOut(ctx) })
	for {
		if err := w.pause(ctx); err != nil {
			return err
		}
		if err := w.query(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("the query failed", "err", err)
		}
	}
}

// pause waits until the next query is due.
func (w *Watcher) pause(ctx context.Context) error {
	for {
		var timer <-chan time.Time
		if at, ok := w.nextQuery(); ok {
			wait := time.Until(at)
			if wait <= 0 {
				return ctx.Err()
			}
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		case <-timer:
		}
	}
}

// nextQuery says when, or that nothing is watched.
func (w *Watcher) nextQuery() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.watchingLocked() {
		return time.Time{}, false
	}
	if w.soon {
		return w.asked.Add(w.limits.QueryMin), true
	}
	return w.due, true
}

func (w *Watcher) watchingLocked() bool {
	for x := range w.watches {
		if !x.over() {
			return true
		}
	}
	return false
}

// refresh makes sure that the last answer is fresh, by a query if need be. Whoever
// comes while one is under way shares its answer.
func (w *Watcher) refresh(ctx context.Context) error {
	if w.fresh() {
		return nil
	}
	return w.query(ctx)
}

func (w *Watcher) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stale && !w.heard.IsZero() && time.Since(w.heard) < w.limits.QueryMin
}

// query asks the scheduler for all jobs and tells the watches.
func (w *Watcher) query(ctx context.Context) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		w.failed(err)
		return err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if w.fresh() {
		w.arrange()
		return nil
	}
	if err := w.space(ctx); err != nil {
		return err
	}
	w.begin()
	jobs, err := s.list(ctx, w.sh)
	if err != nil {
		w.failed(err)
		return err
	}
	w.answered(jobs)
	w.settle(ctx, s, jobs)
	w.arrange()
	return nil
}

// space keeps two queries Limits.QueryMin apart.
func (w *Watcher) space(ctx context.Context) error {
	w.mu.Lock()
	wait := time.Until(w.asked.Add(w.limits.QueryMin))
	w.mu.Unlock()
	return sleep(ctx, wait)
}

func (w *Watcher) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.stale, w.soon = time.Now(), false, false
}

func (w *Watcher) answered(jobs []api.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.silence.isZero() {
		w.log.Info("the scheduler answers again", "silentSince", w.silence.since)
	}
	w.jobs, w.heard, w.silence = jobs, w.asked, silence{}
}

// arrange decides when the next query is due by itself.
func (w *Watcher) arrange() {
	signal(w.relook)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(w.limits.stretch(w.intervalLocked()))
}

// intervalLocked is long only when every watched job has pended for long and none
// is expected to start soon.
func (w *Watcher) intervalLocked() time.Duration {
	if !w.silence.isZero() {
		return min(w.limits.Query<<min(w.silence.times-1, 8), max(w.limits.Query, w.limits.QuerySlow))
	}
	for x := range w.watches {
		if job := x.Job(); !job.State.Ended() && !w.pendsLong(job) {
			return w.limits.Query
		}
	}
	return w.limits.QuerySlow
}

func (w *Watcher) pendsLong(job api.Job) bool {
	if !job.State.Waiting() || job.Submitted.IsZero() || time.Since(job.Submitted) < w.limits.SlowAfter {
		return false
	}
	toStart := time.Until(job.ExpectedStart)
	return job.ExpectedStart.IsZero() || toStart < -w.limits.QuerySlow || toStart > w.limits.QuerySlow
}

// settle tells each watch what the list says of its job, and asks one by one about
// those that are gone from it or whose log is not known.
func (w *Watcher) settle(ctx context.Context, s scheduler, jobs []api.Job) {
	asked := 0
	for _, x := range w.open() {
		job, listed := pick(s, jobs, x.id)
		if listed && !x.wantsDetail(job) {
			x.tell(job)
			continue
		}
		if asked++; asked > detailsPerRound {
			w.Nudge()
			return
		}
		w.settleByDetail(ctx, s, x, job, listed)
	}
}

func (w *Watcher) settleByDetail(ctx context.Context, s scheduler, x *Watch, job api.Job, listed bool) {
	id := x.id
	if listed {
		id = job.ID
	}
	detail, err := s.detail(ctx, w.sh, id)
	switch {
	case err == nil:
		x.noteDetail()
		x.tell(detail)
	case listed:
		w.log.Debug("no detail of a job", "job", id, "err", err)
		x.tell(job)
	case errors.Is(err, errNoJob):
		x.tell(x.gone(s.name()))
	default:
		w.log.Debug("no word of a job that left the queue", "job", id, "err", err)
	}
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
// first that waits.
func pick(s scheduler, jobs []api.Job, id string) (api.Job, bool) {
	var best api.Job
	found := false
	for _, job := range jobs {
		if !s.is(job, id) {
			continue
		}
		if job.ID == id {
			return job, true
		}
		better := (job.State == api.JobRunning) && (best.State != api.JobRunning)
		if same := (job.State == api.JobRunning) == (best.State == api.JobRunning); same && compareIDs(job.ID, best.ID) < 0 {
			better = true
		}
		if !found || better {
			best, found = job, true
		}
	}
	return best, found
}

// silence is how long the scheduler has not answered.
type silence struct {
	since time.Time
	times int
	words string
}

func (s silence) isZero() bool { return s.times == 0 }

// failed notes that a query failed. One failure is no news to a watch that knows
// its job; a lost link is none at all, since the host's state says it.
func (w *Watcher) failed(err error) {
	w.mu.Lock()
	if !errors.Is(err, ErrNoAnswer) {
		w.due = time.Now().Add(w.limits.stretch(w.limits.Query))
		w.soon = false
		w.mu.Unlock()
		return
	}
	if w.silence.isZero() {
		w.silence.since = time.Now()
	}
	w.silence.times++
	w.silence.words = err.Error()
	now, name := w.silence, "the scheduler"
	if w.sched != nil {
		name = w.sched.name()
	}
	w.mu.Unlock()

	for _, x := range w.open() {
		if now.times > 1 || !x.heardOf() {
			x.tellUnknown("NoAnswer", now.hint(name, x.Job()))
		}
	}
	w.arrange()
}

// hint says since when there is no answer, and what was known before.
func (s silence) hint(scheduler string, last api.Job) string {
	text := fmt.Sprintf("%s has not answered since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs run on meanwhile"
}

// sleep waits for d unless ctx is over first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
