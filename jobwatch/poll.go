package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
)

// Serve makes the shared query for as long as anything is watched, until ctx is over.
func (w *Watcher) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() { w.watchForLogs(ctx) })
	for {
		if err := w.pause(ctx); err != nil {
			return err
		}
		if err := w.query(ctx, watchedOnly); err != nil && ctx.Err() == nil {
			w.log.Debug("scheduler query failed", "err", err)
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
	if !w.anyActiveLocked() {
		return time.Time{}, false
	}
	if w.soon {
		return w.lastQuery.Add(w.limits.QueryMin), true
	}
	return w.due, true
}

func (w *Watcher) anyActiveLocked() bool {
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
	return w.query(ctx, allJobs)
}

func (w *Watcher) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stale && !w.jobsAt.IsZero() && time.Since(w.jobsAt) < w.limits.QueryMin
}

// scope is what a query is about.
type scope bool

const (
	allJobs     scope = true
	watchedOnly scope = false // as far as the scheduler can be asked for that
)

// query asks the scheduler and tells the watches.
func (w *Watcher) query(ctx context.Context, about scope) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		w.recordFailure(err)
		return err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if w.fresh() {
		w.scheduleNext()
		return nil
	}
	if err := w.waitQueryMin(ctx, about); err != nil {
		return err
	}
	open := w.activeWatches()
	if few, ok := s.(selective); ok && about == watchedOnly && len(open) <= w.limits.Connections {
		err = w.queryWatched(ctx, few, open)
	} else {
		err = w.queryAll(ctx, s)
	}
	if err != nil {
		w.recordFailure(err)
		return err
	}
	w.scheduleNext()
	return nil
}

func (w *Watcher) queryAll(ctx context.Context, s scheduler) error {
	w.beginQuery(allJobs)
	jobs, err := s.list(ctx, w.sh)
	if err != nil {
		return err
	}
	w.recordAnswer()
	w.mu.Lock()
	w.jobs, w.jobsAt = jobs, w.lastList
	w.mu.Unlock()
	w.updateWatches(ctx, s, jobs)
	return nil
}

// queryWatched asks about the watched jobs alone, which answers all at once.
func (w *Watcher) queryWatched(ctx context.Context, s selective, watches []*Watch) error {
	w.beginQuery(watchedOnly)
	ids := make([]string, len(watches))
	for i, x := range watches {
		ids[i] = x.id
	}
	if len(ids) == 0 {
		return nil
	}
	jobs, err := s.details(ctx, w.sh, ids)
	if err != nil {
		return err
	}
	w.recordAnswer()
	for _, x := range watches {
		if job, found := pick(s, jobs, x.id); found {
			x.detailSucceeded()
			x.update(s, job)
		} else {
			w.updateMissing(s, x)
		}
	}
	return nil
}

// waitQueryMin keeps two queries Limits.QueryMin apart. A person who wants the list does not
// wait because a watched job has just been asked about.
func (w *Watcher) waitQueryMin(ctx context.Context, about scope) error {
	w.mu.Lock()
	last := w.lastQuery
	if about == allJobs {
		last = w.lastList
	}
	wait := time.Until(last.Add(w.limits.QueryMin))
	w.mu.Unlock()
	return ctxtime.Sleep(ctx, wait)
}

// detailsPerRound bounds how many jobs are asked about one by one after a query.
const detailsPerRound = 8

// updateWatches tells each watch what the list says of its job, and asks one by one about
// those that are gone from it or whose log is not known.
func (w *Watcher) updateWatches(ctx context.Context, s scheduler, jobs []api.Job) {
	if few, ok := s.(selective); ok {
		w.updateWithinBudget(ctx, few, jobs)
		return
	}
	asked := 0
	for _, x := range w.activeWatches() {
		job, listed := pick(s, jobs, x.id)
		if s.listLacksFiles() {
			job.Log = "" // to read it, one must know for certain
		}
		if listed && !x.wantsDetail(s, job) {
			x.update(s, job)
			continue
		}
		if asked++; asked > detailsPerRound {
			w.Nudge()
			return
		}
		w.updateFromDetail(ctx, s, x, job, listed)
	}
}

// updateWithinBudget tells each watch what the list says, and spends the connections that
// are left of this round on those of which least is known, or longest ago.
func (w *Watcher) updateWithinBudget(ctx context.Context, s selective, jobs []api.Job) {
	watches := w.activeWatches()
	for _, x := range watches {
		job, listed := pick(s, jobs, x.id)
		job = x.withKnownFacts(job)
		first := (!listed || x.wantsDetail(s, job)) && x.requireDetail()
		if listed && !first {
			x.update(s, job)
		}
	}
	slices.SortStableFunc(watches, func(a, b *Watch) int { return a.lastDetail().Compare(b.lastDetail()) })
	left := w.limits.Connections - 1
	for _, x := range watches[:min(left, len(watches))] {
		job, listed := pick(s, jobs, x.id)
		w.updateFromDetail(ctx, s, x, x.withKnownFacts(job), listed)
	}
	if len(watches) > left && watches[left].lastDetail().IsZero() {
		w.Nudge() // it has its turn in the next round
	}
}

func (w *Watcher) updateFromDetail(ctx context.Context, s scheduler, x *Watch, job api.Job, listed bool) {
	id := x.id
	if listed {
		id = job.Ref()
	}
	detail, err := s.detail(ctx, w.sh, id)
	if err != nil {
		x.detailFailed()
	}
	switch {
	case err == nil:
		x.detailSucceeded()
		x.update(s, detail)
	case listed:
		w.log.Debug("no detail of a job", "job", id, "err", err)
		x.update(s, job)
	case errors.Is(err, errNoJob):
		w.updateMissing(s, x)
	default:
		w.log.Debug("no record of a job that left the queue", "job", id, "err", err)
	}
}

// updateMissing tells a watch that the scheduler does not know its job, once that is to be
// believed.
func (w *Watcher) updateMissing(s scheduler, x *Watch) {
	if !x.confirmMissing() {
		w.log.Debug("the scheduler does not know a new job yet", "job", x.id)
		return
	}
	x.update(s, x.gone(s))
}

// activeWatches returns the watches whose jobs have not ended.
func (w *Watcher) activeWatches() []*Watch {
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

func (w *Watcher) beginQuery(about scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastQuery, w.soon = time.Now(), false
	if about == allJobs {
		w.lastList, w.stale = w.lastQuery, false
	}
}

// recordAnswer notes that the scheduler speaks.
func (w *Watcher) recordAnswer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.outage.isZero() {
		w.log.Info("the scheduler responds again", "silentSince", w.outage.since)
	}
	w.outage = outage{}
}

// scheduleNext decides when the next query is due by itself.
func (w *Watcher) scheduleNext() {
	signal(w.recheckLogs)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(w.limits.stretch(w.queryIntervalLocked()))
}

// queryIntervalLocked is long only when every watched job has pended for long and none
// is expected to start soon.
func (w *Watcher) queryIntervalLocked() time.Duration {
	if !w.outage.isZero() {
		return min(w.limits.Query<<min(w.outage.times-1, 8), max(w.limits.Query, w.limits.QuerySlow))
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

// outage is how long the scheduler has not answered.
type outage struct {
	since time.Time
	times int
	words string
}

func (s outage) isZero() bool { return s.times == 0 }

// recordFailure notes that a query recordFailure. One failure is no news to a watch that knows
// its job; a lost link is none at all, since the host's state says it.
func (w *Watcher) recordFailure(err error) {
	w.mu.Lock()
	if !errors.Is(err, ErrNoAnswer) {
		w.due = time.Now().Add(w.limits.stretch(w.limits.Query))
		w.soon = false
		w.mu.Unlock()
		return
	}
	w.lastQuery, w.soon = time.Now(), false // also where it was not even asked which scheduler it is
	if w.outage.isZero() {
		w.outage.since = time.Now()
	}
	w.outage.times++
	w.outage.words = err.Error()
	now, name := w.outage, "the scheduler"
	if w.sched != nil {
		name = w.sched.name()
	}
	w.mu.Unlock()

	for _, x := range w.activeWatches() {
		if now.times > 1 || !x.isKnown() {
			x.markUnknown("NoAnswer", now.hint(name, x.Job()))
		}
	}
	w.scheduleNext()
}

// hint says since when there is no answer, and what was known before.
func (s outage) hint(scheduler string, last api.Job) string {
	text := fmt.Sprintf("%s has not responded since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs keep running"
}
