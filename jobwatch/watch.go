package jobwatch

import (
	"reflect"
	"sync"
	"time"

	"tunctl/internal/api"
)

// Watch is one interest in one job. Its channel holds the newest news only, so that
// a slow reader never holds up the query that everybody shares.
type Watch struct {
	id string
	w  *Watcher
	c  chan api.Job

	mu       sync.Mutex
	job      api.Job
	known    bool      // the scheduler has told of the job at least once
	ran      bool      // it was seen running
	detailed bool      // detail was asked for this run of the job
	detailAt time.Time // when it was last asked for; zero: it has to be
	unheard  bool      // and there was no answer
	closed   bool

	began  time.Time // when the watch did
	misses int       // how often in a row the scheduler did not know the job

	followed  bool // somebody else looks for its log
	sightedIn int  // the life, from 1 on, in which its log was seen while it waited
}

// Watch begins to watch a job, by its id or its api.Job.Ref. For an array it is about
// the task that runs. Close ends it.
func (w *Watcher) Watch(id string) *Watch {
	x := &Watch{id: id, w: w, c: make(chan api.Job, 1), began: time.Now()}
	x.job.ID, x.job.Cluster = splitRef(id)
	x.job.State = api.JobUnknown
	w.mu.Lock()
	w.watches[x] = struct{}{}
	w.soon = true
	w.mu.Unlock()
	w.poke()
	return x
}

// C delivers the job whenever something about it changed, the newest state only. It
// is closed by Close.
func (x *Watch) C() <-chan api.Job { return x.c }

// Job returns the job as last heard of; unknown before that.
func (x *Watch) Job() api.Job {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.job
}

// Close ends the watch. The job itself is left alone.
func (x *Watch) Close() {
	x.w.mu.Lock()
	delete(x.w.watches, x)
	x.w.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.closed = true
		close(x.c)
	}
}

// over reports whether there is nothing more to learn about the job.
func (x *Watch) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed || x.job.State.Ended()
}

// wantsDetail reports whether the list's word for the job does not say enough: it
// never tells where Slurm writes the log, and while a job waits the log's name may
// still lack the node.
func (x *Watch) wantsDetail(s scheduler, now api.Job) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Log != "" {
		return false
	}
	sameRun := x.detailed && now.Restarts == x.job.Restarts && now.Node == x.job.Node && s.asRequested(now, x.job.ID).Task == x.job.Task
	return !sameRun
}

// tell records what is now known of the job and passes it on if it is news.
func (x *Watch) tell(s scheduler, job api.Job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, _ := splitRef(x.id)
	job = s.asRequested(job, id)
	x.misses = 0
	if job.Log == "" && job.Restarts == x.job.Restarts && job.Task == x.job.Task {
		job.Log, job.OtherLogs = x.job.Log, x.job.OtherLogs
	}
	x.known = true
	x.ran = x.ran || job.State == api.JobRunning || job.State == api.JobCompleting
	x.enterLocked(job)
}

// tellUnknown keeps what was known of the job and says that it is no longer certain.
func (x *Watch) tellUnknown(reason, hint string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	job := x.job
	job.State, job.Reason, job.Hint = api.JobUnknown, reason, hint
	x.enterLocked(job)
}

func (x *Watch) enterLocked(job api.Job) {
	if x.closed || reflect.DeepEqual(job, x.job) {
		return
	}
	x.job = job
	select {
	case <-x.c:
	default:
	}
	x.c <- job
}

// Grace and graceAnswers are how long and how often the scheduler must not know a young
// job until that is believed: right after a submission, a wrapper that keeps answers, or
// a controller that takes over, may not know it yet.
const (
	Grace        = 2 * time.Minute
	graceAnswers = 3
)

// missing notes that the scheduler does not know the job, and reports whether that is
// to be believed.
func (x *Watch) missing() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := time.Since(x.began) >= Grace
	x.misses++
	return x.ran || old && (x.misses == 1 || x.misses >= graceAnswers)
}

// heardOf reports whether the scheduler has told of the job.
func (x *Watch) heardOf() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known
}

// noteDetail remembers that detail is known for this run of the job.
func (x *Watch) noteDetail() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.detailed, x.detailAt, x.unheard = true, time.Now(), false
}

// noteNoDetail remembers that detail was asked for without an answer: the other jobs come first
// now.
func (x *Watch) noteNoDetail() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.detailAt, x.unheard = time.Now(), true
}

// outdateDetail says that what is known of the job is no longer enough, and reports
// whether it is to be asked about before others: not if that just failed.
func (x *Watch) outdateDetail() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.unheard {
		x.detailAt = time.Time{}
	}
	return !x.unheard
}

// lastDetail is when the job was last asked about by itself; zero: it has to be.
func (x *Watch) lastDetail() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.detailAt
}

// supplemented adds to what a short list says of the job what is known of this run.
func (x *Watch) supplemented(job api.Job) api.Job {
	x.mu.Lock()
	known := x.job
	x.mu.Unlock()
	if !x.heardOf() || known.Submitted.IsZero() {
		return job
	}
	job.Name, job.Script, job.Submitted, job.Restarts = known.Name, known.Script, known.Submitted, known.Restarts
	switch {
	case job.State.Waiting():
		job.ExpectedStart = known.ExpectedStart
	case job.Node == known.Node && !known.Start.IsZero():
		job.Start, job.End = known.Start, known.End
	}
	if job.Hint == "" && job.State == known.State {
		job.Hint = known.Hint
	}
	return job
}

// Gone is the reason of a job that the scheduler no longer knows.
const Gone = "Gone"

// gone is the job when the scheduler has forgotten it: it ended, and how is lost.
func (x *Watch) gone(s scheduler) api.Job {
	x.mu.Lock()
	defer x.mu.Unlock()
	job := x.job
	job.Reason = Gone
	few, ok := s.(selective)
	switch {
	case ok && few.explainGone(&job, x.ran):
	case x.known:
		job.State = api.JobFinished
		job.Hint = "the job has left the queue; how it ended is not recorded"
	default:
		job.State = api.JobNeverRan
		job.Hint = "the scheduler does not know job " + x.id
	}
	return job
}
