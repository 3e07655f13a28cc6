package jobwatch

import (
	"context"
	"strings"
	"time"

	"tunctl/internal/api"
)

// watchForLogs checks, while jobs wait, whether their logs exist. A log is the first sign
// that a job started, and checking for a file costs the host far less than a query of the
// scheduler. When a log appears, one query is made.
func (w *Watcher) watchForLogs(ctx context.Context) {
	last := time.Now()
	for {
		var timer <-chan time.Time
		if interval, ok := w.logCheckInterval(); ok {
			timer = time.After(time.Until(last.Add(w.limits.withJitter(interval))))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.recheckLogs:
			continue
		case <-timer:
		}
		last = time.Now()
		if w.checkForLogs(ctx) {
			w.Nudge()
		}
	}
}

// logCheckInterval is the time to the next check; the boolean is false if no watch waits
// for a log.
func (w *Watcher) logCheckInterval() (time.Duration, bool) {
	shortest, found := time.Duration(0), false
	for _, x := range w.activeWatches() {
		job, ok := x.waitsForLog()
		if !ok {
			continue
		}
		wait := w.limits.statInterval(time.Since(job.Submitted), job.ExpectedStart)
		if !found || wait < shortest {
			shortest, found = wait, true
		}
	}
	return shortest, found
}

// checkForLogs checks for all the logs by one command, and reports whether one appeared.
func (w *Watcher) checkForLogs(ctx context.Context) bool {
	var watches []*Watch
	var requests []fileRequest
	for _, x := range w.activeWatches() {
		if job, ok := x.waitsForLog(); ok {
			watches = append(watches, x)
			requests = append(requests, fileRequest{pattern: job.Log, newer: job.Submitted})
		}
	}
	if len(requests) == 0 {
		return false
	}
	files, err := readFiles(ctx, w.sh, requests)
	if err != nil {
		w.log.Debug("cannot look for logs", "err", err)
		return false
	}
	appeared := false
	for i, f := range files {
		if f.found {
			watches[i].logSeen()
			appeared = true
		}
	}
	return appeared
}

// waitsForLog returns the job if it waits, its log's name is known, and the log has not
// been seen since the job was last queued.
func (x *Watch) waitsForLog() (api.Job, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.job.Log != "" && !strings.Contains(x.job.Log, "%")
	return x.job, !x.followed && known && x.job.State.Waiting() && x.logSeenInRun < x.job.Restarts+1
}

// LogFollowed says that a Follower looks for the job's log, so that the Watcher need not.
func (x *Watch) LogFollowed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.followed = true
}

// logSeen records that the log exists, so that it causes one query only.
func (x *Watch) logSeen() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.logSeenInRun = x.job.Restarts + 1
}

// statInterval is the time between two checks for a file, after having waited for it so
// long. It is shorter around the expected start of the job.
func (l Limits) statInterval(waited time.Duration, expected time.Time) time.Duration {
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
