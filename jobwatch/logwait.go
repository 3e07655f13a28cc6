package jobwatch

import (
	"context"
	"strings"
	"time"

	"tunctl/internal/api"
)

// lookOut looks, while jobs wait, whether their logs are there yet: a log is the
// first sign that a job started, and to look for a file costs the host next to
// nothing, where to ask the scheduler more often would not. Its appearance earns one
// query.
func (w *Watcher) lookOut(ctx context.Context) {
	last := time.Now()
	for {
		var timer <-chan time.Time
		if interval, ok := w.lookInterval(); ok {
			timer = time.After(time.Until(last.Add(w.limits.stretch(interval))))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.relook:
			continue
		case <-timer:
		}
		last = time.Now()
		if w.logAppeared(ctx) {
			w.Nudge()
		}
	}
}

// lookInterval is how long to wait before the next look, if there is anything to
// look for.
func (w *Watcher) lookInterval() (time.Duration, bool) {
	shortest, found := time.Duration(0), false
	for _, x := range w.open() {
		job, ok := x.lookedFor()
		if !ok {
			continue
		}
		wait := w.limits.statWait(time.Since(job.Submitted), job.ExpectedStart)
		if !found || wait < shortest {
			shortest, found = wait, true
		}
	}
	return shortest, found
}

// logAppeared looks for all the logs at once.
func (w *Watcher) logAppeared(ctx context.Context) bool {
	var watches []*Watch
	var asks []ask
	for _, x := range w.open() {
		if job, ok := x.lookedFor(); ok {
			watches = append(watches, x)
			asks = append(asks, ask{pattern: job.Log, newer: job.Submitted})
		}
	}
	if len(asks) == 0 {
		return false
	}
	files, err := readFiles(ctx, w.sh, asks)
	if err != nil {
		w.log.Debug("cannot look for logs", "err", err)
		return false
	}
	appeared := false
	for i, f := range files {
		if f.found {
			watches[i].sighted()
			appeared = true
		}
	}
	return appeared
}

// lookedFor returns the job if it waits, its log's name is known, and the log has not
// been seen since the job was last queued.
func (x *Watch) lookedFor() (api.Job, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.job.Log != "" && !strings.Contains(x.job.Log, "%")
	return x.job, !x.followed && known && x.job.State.Waiting() && x.sightedIn < x.job.Restarts+1
}

// LogFollowed says that a Follower looks for the job's log, so that nobody else needs to.
func (x *Watch) LogFollowed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.followed = true
}

// sighted notes that the log was seen, so that one appearance earns one query.
func (x *Watch) sighted() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sightedIn = x.job.Restarts + 1
}

// statWait is how long to wait between two looks for a file that has been waited for
// so long; less around the time at which it is expected.
func (l Limits) statWait(waited time.Duration, expected time.Time) time.Duration {
	slow := l.Stat
	switch {
	case waited > l.StatSlowestAfter:
		slow = l.StatSlowest
	case waited > l.StatSlowAfter:
		slow = l.StatSlow
	}
	toStart := time.Until(expected)
	switch near := 2 * l.StatSlow; {
	case expected.IsZero() || toStart < -l.StatSlowest:
		return slow
	case toStart < near:
		return l.Stat
	default:
		return min(slow, max(l.Stat, toStart-near))
	}
}
