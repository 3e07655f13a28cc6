package jobwatch

import (
	"cmp"
	"context"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/joblog"
)

// watchForLogs checks, while jobs wait, whether their logs exist. A log is the first sign
// that a job started, and checking for a file costs the host far less than a query of the
// scheduler. When a log appears, one query is made.
func (w *Watcher) watchForLogs(ctx context.Context) {
	last := time.Now()
	for {
		var timer <-chan time.Time
		if interval, ok := w.logCheckInterval(); ok {
			timer = time.After(time.Until(last.Add(w.limits.WithJitter(interval))))
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
			w.QuerySoon()
		}
	}
}

// logCheckInterval is the time to the next check; the boolean is false if no watch waits
// for a log.
func (w *Watcher) logCheckInterval() (shortest time.Duration, found bool) {
	for _, job := range w.waitForLogs() {
		wait := w.limits.StatInterval(time.Since(job.Submitted), job.ExpectedStart)
		if !found || wait < shortest {
			shortest, found = wait, true
		}
	}
	return shortest, found
}

// waitForLogs are the jobs that wait, whose log's name is known, and whose log has not been seen
// since they were last queued, by their watches.
func (w *Watcher) waitForLogs() map[*Watch]api.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := map[*Watch]api.Job{}
	for x := range w.watches {
		known := x.job.Log != "" && !strings.Contains(x.job.Log, "%")
		if known && !x.followed && x.job.State.Waiting() && x.logSeenInRun <= x.job.Restarts {
			jobs[x] = x.job
		}
	}
	return jobs
}

// checkForLogs checks for all the logs by one command, and reports whether one appeared.
func (w *Watcher) checkForLogs(ctx context.Context) (appeared bool) {
	var watches []*Watch
	var logs []joblog.Awaited
	for x, job := range w.waitForLogs() {
		watches = append(watches, x)
		logs = append(logs, joblog.Awaited{Path: job.Log, NewerThan: job.Submitted})
	}
	if len(logs) == 0 {
		return false
	}
	exist, err := joblog.Exist(ctx, w.sh, logs)
	if err != nil {
		w.log.Debug("cannot look for logs", "err", err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, exists := range exist {
		if exists {
			watches[i].logSeenInRun = watches[i].job.Restarts + 1 // so that it causes one query only
			appeared = true
		}
	}
	return appeared
}

// LogFollowed says that a Follower looks for the job's log, so that the Watcher need not.
func (x *Watch) LogFollowed() {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	x.followed = true
}

// LogFound says that a Follower found one of the job's files. If we have just submitted the
// job and the file's name has its number, the job runs, whatever the scheduler said last:
// nothing else writes there. Any other file may be that of an earlier job, or of several
// jobs, and that of an earlier run may still grow.
func (x *Watch) LogFound(file string) {
	x.w.mu.Lock()
	started := !x.w.answersSoonLocked() && x.startedByLocked(file)
	x.w.mu.Unlock()
	if started {
		x.w.log.Info("the log of a new job exists, so it runs", "job", x.id, "path", file)
		x.w.QuerySoon() // the node is still unknown
	}
}

// answersSoonLocked reports whether the scheduler may be queried within a moment: its answer has
// the node too, and is worth waiting for.
func (w *Watcher) answersSoonLocked() bool {
	return time.Until(cmp.Or(w.early, w.lastQuery.Add(w.limits.QueryMin))) < time.Second/2
}

// startedByLocked reports whether a file is the first sign that the job runs, and publishes that.
func (x *Watch) startedByLocked(file string) bool {
	first := x.job.State.Waiting() && x.job.Restarts == 0 && !x.ran && x.logFound.IsZero()
	if x.submitted.IsZero() || !first || !joblog.NamesJob(file, x.job.ID) {
		return false
	}
	x.logFound, x.waitedAs = time.Now(), x.job.State
	job := x.job
	if job.Reason != "" {
		job.Reason, job.Hint = "", "" // why it waited
	}
	job.State, job.ExpectedStart = api.JobRunning, time.Time{}
	x.publishLocked(job)
	return true
}

// isOutdatedLocked reports whether an answer says that the job still waits, although its log
// has shown that it runs. Some sites answer from a cache, but not for longer than Grace. A hold
// is news if there was none before: Grid Engine creates the log of a job that it then cannot
// start.
func (x *Watch) isOutdatedLocked(job api.Job) bool {
	unconfirmed := x.job.State == api.JobRunning && x.job.Node == "" && time.Since(x.logFound) < Grace
	newHold := job.State == api.JobHeld && x.waitedAs != api.JobHeld
	return unconfirmed && job.State.Waiting() && !newHold && job.Restarts == x.job.Restarts
}
