package jobwatch

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/sched"
)

// Report is a job as the scheduler reported it. Asked is when the query began: what happened
// after that may not be in the report. It is zero if no answer of the scheduler is behind it.
type Report struct {
	api.Job
	Asked time.Time
}

// Watch reports one job. Its channel holds only the newest report, so that a slow reader never
// delays the query that all watches share.
type Watch struct {
	id   string
	poll *poll
	c    chan Report

	// detail is what is known of the job's detail; only a query uses it.
	detail struct {
		known  bool      // that of this run of the job
		row    api.Job   // the job in the list then
		at     time.Time // when it was last queried
		failed bool      // the last query for it failed
	}

	// The rest is guarded by poll.mu.

	job     api.Job
	known   bool // the scheduler has reported the job at least once
	ran     bool // it was seen running
	closed  bool
	passive bool // it causes no query; set before others see the watch

	began     time.Time // when the watch began
	submitted time.Time // when we submitted the job, if that was just before
	missed    time.Time // since when the scheduler does not know the job; zero: it does

	logFound time.Time    // when its log showed that it runs, before the scheduler did
	waitedAs api.JobState // its state until then
}

// C delivers the job after each answer of the scheduler, also if nothing has changed, and after
// each other change; only the newest report. Close closes it.
func (x *Watch) C() <-chan Report { return x.c }

// Job returns the job as last reported; its state is unknown before that.
func (x *Watch) Job() api.Job {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	return x.job
}

// QuerySoon requests the next query as Watcher.QuerySoon does.
func (x *Watch) QuerySoon() { x.poll.QuerySoon() }

// Close ends the watch. It does not affect the job.
func (x *Watch) Close() {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	delete(x.poll.watches, x)
	if !x.closed {
		x.closed = true
		close(x.c)
	}
}

// SeenRunning says that the job was seen running before the watch began, on a node if the scheduler said
// so, else by its log: if the scheduler forgets it, it has ended, and was not removed before it ran.
func (x *Watch) SeenRunning(node string) {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	if node != "" {
		x.ran = true
	} else {
		x.logFound = time.Now()
	}
}

// JustSubmitted reports whether we submitted the job within Limits.LogFirstFor.
func (x *Watch) JustSubmitted() bool {
	return !x.submitted.IsZero() && time.Since(x.submitted) < x.poll.host.Limits.LogFirstFor
}

// isActiveLocked reports whether the job has not ended, and the watch was not closed.
func (x *Watch) isActiveLocked() bool { return !x.closed && !x.job.State.Ended() }

// wantsDetail reports whether the list does not have enough about the job: Slurm's never has
// the log, and while a job waits the log's name may lack the node. A detail is compared with the
// list that it followed, since PBS's list does not have the tasks of an array.
func (x *Watch) wantsDetail(s sched.Scheduler, now api.Job) bool {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	if now.Log != "" || x.passive {
		return false
	}
	row := x.detail.row
	sameRun := now.Restarts == row.Restarts && now.Node == row.Node && s.AsRequested(now, x.job.ID).Task == s.AsRequested(row, x.job.ID).Task
	if s.Kind().ShortList {
		sameRun = sameRun && now.State == row.State && now.Start.Sub(row.Start) < rerunAfter
	}
	return !x.detail.known || !sameRun || isVague(now) && x.job.State == api.JobUnknown
}

// rerunAfter is how much later a job has started by a short list that was started again: such a list is
// accurate to a minute or two.
const rerunAfter = 3 * time.Minute

// isVague recognises an array in a list that does not have its tasks.
func isVague(listed api.Job) bool { return listed.State == api.JobRunning && listed.Node == "" }

// update records and publishes the job as the scheduler reported it.
func (x *Watch) update(s sched.Scheduler, job api.Job) {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	asked := x.poll.lastQuery
	id, _ := sched.SplitRef(x.id)
	job = s.AsRequested(job, id)
	job.Hint = releaseWords.ReplaceAllString(job.Hint, fmt.Sprintf("release it with `tunctl ssh %s $1 %s`", x.poll.host.Host, job.ID))
	x.missed, x.known = time.Time{}, true
	x.ran = x.ran || job.State == api.JobRunning || job.State == api.JobCompleting
	if x.isOutdatedLocked(job) {
		job = x.job
	}
	job = x.poll.asCancelledLocked(s, job)
	if job.Log == "" && job.Restarts == x.job.Restarts && job.Task == x.job.Task {
		job.Log, job.OtherLogs = x.job.Log, x.job.OtherLogs
	}
	if job.State.Ended() { // the accounting does not count its runs
		job.Restarts = max(job.Restarts, x.job.Restarts)
	}
	job.Limit, job.Asks = cmp.Or(job.Limit, x.job.Limit), cmp.Or(job.Asks, x.job.Asks)
	job.Seen = x.job.Seen
	if at := asked.Round(0).UTC(); x.passive && at.After(job.Seen) || at.Sub(job.Seen) >= seenEvery || !reflect.DeepEqual(job, x.job) {
		job.Seen = at
	}
	x.sendLocked(Report{job, asked})
}

// seenEvery is how often the time of an unchanged job is set that somebody follows: each change of a job
// is saved and published.
const seenEvery = 5 * time.Minute

// releaseWords are the end of the hint of a job whose hold the user can release.
var releaseWords = regexp.MustCompile(`release it with (scontrol release|qrls)$`)

// publishLocked delivers the job, without an answer of the scheduler, if it changed.
func (x *Watch) publishLocked(job api.Job) {
	if !reflect.DeepEqual(job, x.job) {
		x.sendLocked(Report{Job: job})
	}
}

func (x *Watch) sendLocked(r Report) {
	if x.closed {
		return
	}
	x.job = r.Job
	latest.Offer(x.c, r)
}

// Grace is how long the scheduler must not know a new job before it counts as missing: right after a
// submission, a wrapper that caches answers, or a backup controller, may not know it yet.
const Grace = 2 * time.Minute

// unseenFor is Grace for a job of which the scheduler has said nothing since it accepted it: the
// caches of sites are a minute old at most.
const unseenFor = 65 * time.Second

// confirmMissing records that the scheduler does not know the job, and reports whether that
// is certain by now: one answer may be wrong, and the job is charged if it runs.
func (x *Watch) confirmMissing(s sched.Scheduler) bool {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	again := !x.missed.IsZero()
	if !again {
		x.missed = time.Now()
	}
	age := time.Since(x.began)
	if hint := x.unseenHintLocked(s); hint != "" {
		job := x.job
		job.Hint = "the scheduler does not know the job yet; if that stays, " + hint
		x.publishLocked(job)
		return age >= unseenFor && again
	}
	return time.Since(x.missed) >= x.poll.host.Limits.LookApart() && (x.known || x.ran || age >= Grace)
}

// isMissed reports whether the scheduler did not know the job when it was last asked for its detail.
func (x *Watch) isMissed() bool {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	return !x.missed.IsZero()
}

// unseenHintLocked is what it means that the scheduler has said nothing of a job that we
// submitted; "" if it has, or if that means nothing.
func (x *Watch) unseenHintLocked(s sched.Scheduler) string {
	if x.submitted.IsZero() || x.ran || x.job.Queue != "" || !x.logFound.IsZero() {
		return ""
	}
	return s.Kind().UnseenHint
}

// setDetail records that the detail of this run of the job is known; row is the job in the list, if
// there is one.
func (x *Watch) setDetail(row api.Job) {
	x.detail.known, x.detail.row, x.detail.at, x.detail.failed = true, row, time.Now(), false
}

// withKnownNode sets the node of a listed job to that of its detail: the list of Slurm names the
// host on which srun was typed.
func (x *Watch) withKnownNode(row api.Job) api.Job {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	if seen := x.detail.row; x.detail.known && x.job.Node != "" && row.Node == seen.Node && row.Restarts == seen.Restarts {
		row.Node, row.Nodes = x.job.Node, x.job.Nodes
	}
	return row
}

// withKnownFacts adds to a job from a short list what is known of this run.
func (x *Watch) withKnownFacts(job api.Job) api.Job {
	x.poll.mu.Lock()
	known, reported := x.job, x.known
	x.poll.mu.Unlock()
	switch {
	case !reported || known.Submitted.IsZero():
		return job
	case isVague(job) && !known.State.Ended():
		return known
	}
	job.Name, job.Script, job.Submitted, job.Restarts = known.Name, known.Script, known.Submitted, known.Restarts
	switch {
	case job.State.Waiting():
		job.ExpectedStart = known.ExpectedStart
	case job.Node == known.Node && !known.Start.IsZero():
		job.Start, job.End = known.Start, known.End
	}
	if (job.Hint == "" || job.State == api.JobHeld) && job.State == known.State {
		job.Hint = known.Hint // the list does not have the kind of a hold
	}
	return job
}

// gone returns the job as ended, after the scheduler has forgotten it.
func (x *Watch) gone(s sched.Scheduler) api.Job {
	x.poll.mu.Lock()
	defer x.poll.mu.Unlock()
	job := x.job
	job.Reason = api.ReasonGone
	if job.End.After(cmp.Or(x.missed, time.Now())) {
		job.End = time.Time{} // it was the time limit; when it ended is not known
	}
	ran := x.ran || !x.logFound.IsZero()
	switch hint := x.unseenHintLocked(s); {
	case hint != "":
		job.State, job.Hint = api.JobNeverRan, hint
	case s.ExplainGone(&job, ran):
	case x.known || ran:
		job.State = api.JobFinished
		job.Hint = "the job has left the queue; how it ended is not recorded"
	default:
		job.State = api.JobNeverRan
		job.Hint = "the scheduler does not know job " + x.id
	}
	return job
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
		x.poll.host.Log.Info("the log of a new job exists, so it runs", "job", x.id, "path", file)
		x.poll.QuerySoon() // the node is still unknown
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
