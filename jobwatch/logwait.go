package jobwatch

import (
	"context"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/joblog"
)

// logWait looks for the logs of jobs that wait.
type logWait struct{ poll *poll }

// serve checks, while jobs wait, whether their logs exist. A log is the first sign
// that a job started, and checking for a file costs the host far less than a query of the
// scheduler. When a log appears, one query is made.
func (l *logWait) serve(ctx context.Context) {
	last := time.Now()
	for {
		var timer <-chan time.Time
		if interval, ok := l.interval(); ok {
			timer = time.After(time.Until(last.Add(l.poll.host.limits.WithJitter(interval))))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.poll.recheckLogs:
			continue
		case <-timer:
		}
		last = time.Now()
		if l.check(ctx) {
			l.poll.querySoon()
		}
	}
}

// interval is the time to the next check; the boolean is false if no watch waits
// for a log.
func (l *logWait) interval() (shortest time.Duration, found bool) {
	for _, job := range l.waiting() {
		wait := l.poll.host.limits.StatInterval(time.Since(job.Submitted), job.ExpectedStart)
		if !found || wait < shortest {
			shortest, found = wait, true
		}
	}
	return shortest, found
}

// waiting are the jobs that wait, whose log's name is known, and whose log has not been seen
// since they were last queued, by their watches.
func (l *logWait) waiting() map[*Watch]api.Job {
	l.poll.mu.Lock()
	defer l.poll.mu.Unlock()
	jobs := map[*Watch]api.Job{}
	for x := range l.poll.watches {
		known := x.job.Log != "" && !strings.Contains(x.job.Log, "%")
		if known && !x.followed && x.job.State.Waiting() && x.logSeenInRun <= x.job.Restarts {
			jobs[x] = x.job
		}
	}
	return jobs
}

// check checks for all the logs by one command, and reports whether one appeared.
func (l *logWait) check(ctx context.Context) (appeared bool) {
	var watches []*Watch
	var logs []joblog.Awaited
	for x, job := range l.waiting() {
		watches = append(watches, x)
		logs = append(logs, joblog.Awaited{Path: job.Log, NewerThan: job.Submitted})
	}
	if len(logs) == 0 {
		return false
	}
	exist, err := joblog.Exist(ctx, l.poll.host.sh, logs)
	if err != nil {
		l.poll.host.log.Debug("cannot look for logs", "err", err)
		return false
	}
	l.poll.mu.Lock()
	defer l.poll.mu.Unlock()
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
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	x.followed = true
}

// LogFound says that a Follower found one of the job's files. If we have just submitted the
// job and the file's name has its number, the job runs, whatever the scheduler said last:
// nothing else writes there. Any other file may be that of an earlier job, or of several
// jobs, and that of an earlier run may still grow.
func (x *Watch) LogFound(file string) {
	x.poll.mu.Lock()
	started := !x.poll.answersSoonLocked() && x.startedByLocked(file)
	x.poll.mu.Unlock()
	if started {
		x.poll.host.log.Info("the log of a new job exists, so it runs", "job", x.id, "path", file)
		x.poll.querySoon() // the node is still unknown
	}
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
