package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// Serve makes the shared query while anything is watched, until ctx ends.
func (w *Watcher) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var logs sync.WaitGroup
	defer logs.Wait()
	defer cancel()
	logs.Go(func() { w.watchForLogs(ctx) })
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

// nextQuery is when the next query is due; ok is false if nothing is watched.
func (w *Watcher) nextQuery() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.anyActiveLocked() {
		return time.Time{}, false
	}
	switch {
	case !w.early.IsZero(): // a query before that would find the job as it was submitted
		return w.early, true
	case w.soon:
		return w.lastQuery.Add(w.limits.QueryMin), true
	}
	return w.due, true
}

// isEarlyLocked reports whether the query after a submission is due.
func (w *Watcher) isEarlyLocked() bool { return !w.early.IsZero() && !time.Now().Before(w.early) }

func (w *Watcher) anyActiveLocked() bool {
	for x := range w.watches {
		if !x.passive && x.isActiveLocked() {
			return true
		}
	}
	return false
}

// activeWatches returns the watches of jobs that have not ended, sorted by id.
func (w *Watcher) activeWatches() []*Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	var active []*Watch
	for x := range w.watches {
		if x.isActiveLocked() {
			active = append(active, x)
		}
	}
	slices.SortFunc(active, func(a, b *Watch) int { return sched.CompareIDs(a.id, b.id) })
	return active
}

// fresh reports whether the last list is good enough.
func (w *Watcher) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stale && !w.isEarlyLocked() && !w.jobsAt.IsZero() && time.Since(w.jobsAt) < w.limits.QueryMin
}

// scope is which jobs a query is for.
type scope bool

const (
	allJobs     scope = true
	watchedOnly scope = false // if the scheduler can be queried for them alone
)

// query queries the scheduler and updates the watches.
func (w *Watcher) query(ctx context.Context, jobs scope) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		w.recordFailure(err)
		return err
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if w.fresh() {
		w.scheduleNext()
		return nil
	}
	if err := w.waitQueryMin(ctx, jobs); err != nil {
		return err
	}
	watches := w.activeWatches()
	if !s.Kind().ShortList || len(watches) > s.PerRound(w.limits.Connections) {
		jobs = allJobs
	}
	early := w.beginQuery(jobs)
	if jobs == watchedOnly {
		err = w.queryWatched(ctx, s, watches)
	} else {
		err = w.queryAll(ctx, s)
	}
	if err != nil {
		w.recordFailure(err)
		return err
	}
	if early && slices.ContainsFunc(w.activeWatches(), func(x *Watch) bool { return !x.passive && x.Job().Node == "" }) {
		w.QuerySoon() // it was too early
	}
	w.scheduleNext()
	return nil
}

func (w *Watcher) queryAll(ctx context.Context, s sched.Scheduler) error {
	jobs, err := s.List(ctx, w.sh)
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

// queryWatched queries only the watched jobs, with their details.
func (w *Watcher) queryWatched(ctx context.Context, s sched.Scheduler, watches []*Watch) error {
	if len(watches) == 0 {
		return nil
	}
	ids := make([]string, len(watches))
	for i, x := range watches {
		ids[i] = x.id
	}
	jobs, err := s.Details(ctx, w.sh, ids)
	if err != nil {
		return err
	}
	w.recordAnswer()
	for _, x := range watches {
		if job, found := sched.Pick(s, jobs, x.id); found {
			x.setDetail(api.Job{})
			x.update(s, job)
		} else {
			w.updateMissing(s, x)
		}
	}
	return nil
}

// waitQueryMin keeps two queries Limits.QueryMin apart, but for the one after a submission. A
// person who wants the list does not wait because of a query for the watched jobs alone.
func (w *Watcher) waitQueryMin(ctx context.Context, jobs scope) error {
	w.mu.Lock()
	last := w.lastQuery
	if jobs == allJobs {
		last = w.lastList
	}
	at := last.Add(w.limits.QueryMin)
	if !w.early.IsZero() && w.early.Before(at) {
		at = w.early
	}
	w.mu.Unlock()
	return ctxtime.Sleep(ctx, time.Until(at))
}

// beginQuery records that a query begins, and reports whether it is the one after a submission.
func (w *Watcher) beginQuery(jobs scope) (early bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if early = w.isEarlyLocked(); early {
		w.early = time.Time{}
	}
	w.lastQuery, w.soon = time.Now(), false
	if jobs == allJobs {
		w.lastList, w.stale = w.lastQuery, false
	}
	return early
}

// detailsPerRound limits how many details are queried after one list.
const detailsPerRound = 8

// listing is a watch and its job in a list.
type listing struct {
	watch  *Watch
	listed bool
	row    api.Job // as listed
	job    api.Job // with what is known besides
	due    bool    // its detail is needed
}

// updateWatches updates each watch from the list, and queries the details of jobs that are
// missing from it or whose log is not known. Those whose last detail is oldest come first, so
// that none takes the turns of others; one that has no detail waits for the others. Where a detail
// costs a connection there are few turns, and none is left unused.
func (w *Watcher) updateWatches(ctx context.Context, s sched.Scheduler, jobs []api.Job) {
	few := s.Kind().ShortList
	turns := detailsPerRound
	if few {
		turns = w.limits.Connections - 1
	}
	var queue []listing
	due := 0
	for _, x := range w.activeWatches() {
		l := listing{watch: x}
		l.row, l.listed = sched.Pick(s, jobs, x.id)
		if !s.Kind().ListHasFiles {
			l.row.Log = "" // the list's guess is not certain enough to read
		}
		if l.job = x.withKnownNode(l.row); few {
			l.job = x.withKnownFacts(l.row)
		}
		wanted := !l.listed || x.wantsDetail(s, l.row)
		if l.due = wanted && !x.detail.failed; l.due {
			due++
		} else if l.listed {
			x.update(s, l.job)
		}
		if wanted || few && !x.passive {
			queue = append(queue, l)
		}
	}
	slices.SortStableFunc(queue, func(a, b listing) int {
		return cmp.Or(sched.TrueFirst(a.due, b.due), a.watch.detail.at.Compare(b.watch.detail.at))
	})
	for _, l := range queue[:min(turns, len(queue))] {
		w.updateFromDetail(ctx, s, l)
	}
	if due > turns {
		w.QuerySoon() // for the next round
	}
}

func (w *Watcher) updateFromDetail(ctx context.Context, s sched.Scheduler, l listing) {
	x, id := l.watch, l.watch.id
	if l.listed {
		id = l.row.Ref()
	}
	detail, err := s.Detail(ctx, w.sh, id)
	x.detail.at, x.detail.failed = time.Now(), err != nil
	switch {
	case err == nil:
		x.setDetail(l.row)
		x.update(s, detail)
	case l.listed:
		w.log.Debug("no detail of a job", "job", id, "err", err)
		x.update(s, l.job)
	case errors.Is(err, sched.ErrNoJob):
		w.updateMissing(s, x)
	default:
		w.log.Debug("no record of a job that left the queue", "job", id, "err", err)
	}
}

// updateMissing marks the watch's job as gone, once that is certain.
func (w *Watcher) updateMissing(s sched.Scheduler, x *Watch) {
	if !x.confirmMissing(s) {
		w.log.Debug("the scheduler does not know a new job yet", "job", x.id)
		return
	}
	job := x.gone(s)
	x.update(s, job)
	if !job.State.Ended() {
		w.QuerySoon() // its record comes later
	}
}

func (w *Watcher) scheduleNext() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scheduleNextLocked()
}

// scheduleNextLocked sets when the next periodic query is due.
func (w *Watcher) scheduleNextLocked() {
	signal(w.recheckLogs)
	w.due = time.Now().Add(w.limits.WithJitter(w.queryIntervalLocked()))
}

// queryIntervalLocked is long only if every watched job has waited for long and none is
// expected to start soon.
func (w *Watcher) queryIntervalLocked() time.Duration {
	if w.outage.times > 0 {
		return min(w.limits.Query<<min(w.outage.times-1, 8), max(w.limits.Query, w.limits.QuerySlow))
	}
	for x := range w.watches {
		if !x.passive && x.isActiveLocked() && !w.waitsLong(x.job) {
			return w.limits.Query
		}
	}
	return w.limits.QuerySlow
}

func (w *Watcher) waitsLong(job api.Job) bool {
	if !job.State.Waiting() || job.Submitted.IsZero() || time.Since(job.Submitted) < w.limits.SlowAfter {
		return false
	}
	toStart := time.Until(job.ExpectedStart)
	return job.ExpectedStart.IsZero() || toStart < -w.limits.QuerySlow || toStart > w.limits.QuerySlow
}

// outage is a time in which the scheduler does not answer.
type outage struct {
	since time.Time
	times int
}

// recordAnswer ends an outage of the scheduler.
func (w *Watcher) recordAnswer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outage.times > 0 {
		w.log.Info("the scheduler responds again", "silentSince", w.outage.since)
	}
	w.outage = outage{}
}

// recordFailure records a failed query. All watches ignore a lost connection, since the host's
// state shows it.
func (w *Watcher) recordFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.early, w.soon = time.Time{}, false
	if !errors.Is(err, remote.ErrNoAnswer) {
		w.due = time.Now().Add(w.limits.WithJitter(w.limits.Query))
		return
	}
	w.lastQuery = time.Now() // also if the scheduler is not even identified
	if w.outage.times == 0 {
		w.outage.since = time.Now()
	}
	w.outage.times++
	name := "the scheduler"
	if w.sched != nil {
		name = w.sched.Kind().Name
	}
	for x := range w.watches {
		if x.isActiveLocked() && (!x.known || w.outage.times > 1) { // one that knows its job ignores the first failure
			job := x.job // with what is known of it
			job.State, job.Reason, job.Hint = api.JobUnknown, "NoAnswer", w.outage.hint(name, job)
			x.publishLocked(job)
		}
	}
	w.scheduleNextLocked()
}

// hint says since when there is no answer, and where the job was.
func (s outage) hint(scheduler string, last api.Job) string {
	text := fmt.Sprintf("%s has not responded since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs keep running"
}
