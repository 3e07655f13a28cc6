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
	return w.query(ctx, everything)
}

func (w *Watcher) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stale && !w.heard.IsZero() && time.Since(w.heard) < w.limits.QueryMin
}

// scope is what a query is about.
type scope bool

const (
	everything  scope = true
	watchedOnly scope = false // as far as the scheduler can be asked for that
)

// query asks the scheduler and tells the watches.
func (w *Watcher) query(ctx context.Context, about scope) error {
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
	if err := w.space(ctx, about); err != nil {
		return err
	}
	open := w.open()
	if few, ok := s.(selective); ok && about == watchedOnly && len(open) <= w.limits.Connections {
		err = w.askSome(ctx, few, open)
	} else {
		err = w.askAll(ctx, s)
	}
	if err != nil {
		w.failed(err)
		return err
	}
	w.arrange()
	return nil
}

func (w *Watcher) askAll(ctx context.Context, s scheduler) error {
	w.begin(everything)
	jobs, err := s.list(ctx, w.sh)
	if err != nil {
		return err
	}
	w.answered()
	w.mu.Lock()
	w.jobs, w.heard = jobs, w.listed
	w.mu.Unlock()
	w.settle(ctx, s, jobs)
	return nil
}

// askSome asks about the watched jobs alone, which answers all at once.
func (w *Watcher) askSome(ctx context.Context, s selective, watches []*Watch) error {
	w.begin(watchedOnly)
	ids := make([]string, len(watches))
	for i, x := range watches {
		ids[i] = x.id
	}
	if len(ids) == 0 {
		return nil
	}
	jobs, err := s.some(ctx, w.sh, ids)
	if err != nil {
		return err
	}
	w.answered()
	for _, x := range watches {
		if job, found := pick(s, jobs, x.id); found {
			x.noteDetail()
			x.tell(s, job)
		} else {
			w.settleGone(s, x)
		}
	}
	return nil
}

// space keeps two queries Limits.QueryMin apart. A person who wants the list does not
// wait because a watched job has just been asked about.
func (w *Watcher) space(ctx context.Context, about scope) error {
	w.mu.Lock()
	last := w.asked
	if about == everything {
		last = w.listed
	}
	wait := time.Until(last.Add(w.limits.QueryMin))
	w.mu.Unlock()
	return sleep(ctx, wait)
}

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

func (w *Watcher) begin(about scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.soon = time.Now(), false
	if about == everything {
		w.listed, w.stale = w.asked, false
	}
}

// answered notes that the scheduler speaks.
func (w *Watcher) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.silence.isZero() {
		w.log.Info("the scheduler responds again", "silentSince", w.silence.since)
	}
	w.silence = silence{}
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
	w.asked, w.soon = time.Now(), false // also where it was not even asked which scheduler it is
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
	text := fmt.Sprintf("%s has not responded since %s", scheduler, s.since.Format("15:04"))
	if last.Node != "" {
		text += "; the job was last seen on " + last.Node
	}
	return text + "; jobs keep running"
}
