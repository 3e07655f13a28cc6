package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel"
)

// errMoved says that the job lives on elsewhere: requeued, or on another node.
var errMoved = errors.New("the job moved")

// life is one run of a job, from the queue to its end. A requeue begins another:
// what the log said before then must not be believed any more.
type life struct {
	session  *session
	host     *tunnel.Host
	jobs     *jobwatch.Watcher
	before   *life // the one that ended when the job moved; nil for the first
	from     []jobwatch.Position
	work     sync.WaitGroup
	findings chan detect.Finding
	follower *jobwatch.Follower // nil until the log's path is known
	said     detect.Finding
	fresh    bool      // it is another than the log said first
	node     string    // the job's
	task     string    // the same, of an array
	log      joblog    // that the follower reads
	running  time.Time // when the job was first seen to run
	silence  string    // what a person was told of its log
	probe    *prober
	remind   *reminder
	keep     *keeper
	hurried  bool

	scouting  bool // there is no log: see scout.go
	scouted   chan detect.Finding
	overheard chan detect.Finding
}

func newLife(s *session, host *tunnel.Host, jobs *jobwatch.Watcher, before *life) *life {
	return &life{
		session: s, host: host, jobs: jobs, before: before,
		findings: make(chan detect.Finding, 1), probe: newProber(s, host),
		scouted: make(chan detect.Finding, 1), overheard: make(chan detect.Finding, 1),
		remind: newReminder(s), keep: newKeeper(s, host, jobs),
	}
}

// serve waits for the job to start, follows its log, proves the endpoint that the
// log announces and keeps the forward on it, until the job ends or moves.
func (l *life) serve(ctx context.Context, watch *jobwatch.Watch, job api.Job) (api.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer l.work.Wait()
	defer cancel()
	defer l.session.change(func(f *facts) {
		f.endpoint, f.link, f.answers = nil, "", false
		if ctx.Err() == nil && !f.jobOver() {
			f.doing = fmt.Sprintf("job %s was requeued, or moved to another node", job.ID)
		}
	})

	l.session.change(func(f *facts) { f.doing = fmt.Sprintf("waiting for the server of job %s", job.ID) })
	l.work.Go(func() { l.probe.serve(ctx) })
	l.work.Go(func() { l.remind.serve(ctx) })
	if l.session.keeps() {
		l.work.Go(func() { l.keep.serve(ctx) })
	}
	link := watchReconnects(l.host)
	var silent <-chan time.Time // tells when the job has run for long without a word
	l.inherit(job)
	for {
		l.session.setJob(job)
		l.node, l.task = job.Node, job.Task
		offer(l.remind.news, job)
		offer(l.keep.news, job)
		if job.State.Ended() {
			return job, l.session.ended(ctx, job)
		}
		l.followLog(ctx, watch, job)
		if l.running.IsZero() && l.follower != nil && job.State == api.JobRunning {
			l.running, silent = time.Now(), time.After(l.session.agent.limits.Silent)
		}
		select {
		case next := <-watch.C():
			if moved(job, next) {
				return next, errMoved
			}
			if job.State.Waiting() && next.State == api.JobRunning {
				l.nudgeFollower()
			}
			job = next
			l.session.heard(job)
			l.inherit(job)
			l.consider(l.said, job) // its node may be news
		case job = <-l.session.told:
		case f := <-l.findings:
			l.hurry(job)
			l.saySilent(job)
			l.consider(f, job)
		case f := <-l.scouted:
			l.consider(f, job)
		case f := <-l.overheard:
			l.consider(f, job)
		case <-silent:
			l.saySilent(job)
		case <-l.probe.answered:
			l.settled()
		case <-l.probe.lapsed:
			l.jobs.Nudge() // the job may be over
			l.nudgeFollower()
		case <-link.changed:
			if link.reconnected() {
				l.jobs.Nudge()
				l.nudgeFollower()
			}
		case <-ctx.Done():
			return job, ctx.Err()
		}
	}
}

// moved tells a job's next life from the one that goes on. A scheduler that does
// not answer has moved nothing.
func moved(was, now api.Job) bool {
	switch {
	case now.State == api.JobUnknown:
		return false
	case now.Restarts != was.Restarts:
		return true
	case was.Node != "" && now.Node != "" && now.Node != was.Node:
		return true
	case was.Task != "" && now.Task != "" && now.Task != was.Task: // an array's next one
		return true
	}
	return now.State.Waiting() && (was.State == api.JobRunning || was.State == api.JobCompleting)
}

// followLog begins to read the job's logs once their paths are known; that one appears
// while the job is queued is the first sign of the start. A job that runs without any,
// as under srun, is looked for elsewhere.
func (l *life) followLog(ctx context.Context, watch *jobwatch.Watch, job api.Job) {
	if job.Hint == jobwatch.Spooled { // whatever else it writes may not tell
		l.scout(ctx, job)
	}
	if l.follower != nil {
		l.follower.Expect(job.ExpectedStart)
		return
	}
	paths := l.session.logPaths(job)
	if len(paths) == 0 {
		l.scout(ctx, job)
		return
	}
	l.log.path = paths[0]
	l.awaitAddress(job)
	detector := detect.New(l.session.app(), l.session.agent.customApps()...)
	l.follower = jobwatch.NewFollower(l.session.logReader(), jobwatch.FollowOptions{
		Paths:     paths,
		From:      l.from,
		NewerThan: job.Submitted,
		Enough:    func() bool { return detector.Finding().Found },
		Limits:    l.session.agent.limits.Jobs,
		Log:       l.session.agent.log.With("session", l.session.name),
	})
	l.follower.Expect(job.ExpectedStart)
	watch.LogFollowed()
	feed := jobwatch.Feed(detector)
	l.work.Go(func() {
		l.session.agent.report("log follower", l.follower.Serve(ctx, func(c jobwatch.Chunk) {
			feed(c)
			l.log.take(c)
			offer(l.findings, detector.Finding())
		}))
	})
}

// joblog is what is known of the file that a job writes to.
type joblog struct {
	path string

	mu    sync.Mutex
	there bool // the file exists
	wrote bool // and has text
}

// take notes what was read of it.
func (l *joblog) take(c jobwatch.Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.there, l.wrote = true, l.wrote || len(c.Data) > 0
}

// silence says that the job has written nothing; "" where it has.
func (l *joblog) silence() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.wrote:
		return ""
	case l.there:
		return "its log is still empty: " + l.path
	}
	return "its log does not exist yet: " + l.path
}

// awaitAddress says that the log is read for where the job serves.
func (l *life) awaitAddress(job api.Job) {
	l.session.change(func(f *facts) {
		f.doing = fmt.Sprintf("looking for the server address in the log of job %s: %s", job.ID, l.log.path)
	})
}

// saySilent tells a person who waits that the job has not written a word for a while, and
// takes it back when it does.
func (l *life) saySilent(job api.Job) {
	if l.running.IsZero() || time.Since(l.running) < l.session.agent.limits.Silent || l.said.Found {
		return
	}
	was := l.silence
	l.silence = l.log.silence()
	switch l.silence {
	case was:
	case "":
		l.awaitAddress(job)
	default:
		l.session.change(func(f *facts) {
			f.doing = fmt.Sprintf("job %s has been running for %s, and %s", job.ID, api.DurationText(time.Since(l.running)), l.silence)
			f.silent = f.doing
		})
	}
}

// nudgeFollower has the log read often for a while: something has just changed.
func (l *life) nudgeFollower() {
	if l.follower != nil {
		l.follower.Nudge()
	}
}

// settled has the log read seldom: the job serves.
func (l *life) settled() {
	if l.follower != nil {
		l.follower.Settled()
	}
}

// hurry asks the scheduler at once, and once, when a queued job's log appears.
func (l *life) hurry(job api.Job) {
	if job.State.Waiting() && !l.hurried {
		l.hurried = true
		l.jobs.Nudge()
	}
}

// inherit goes on where the life before stopped. The log tells of the new one before
// the scheduler does: what names the job's new node is of this life, and so is what
// names none, as an address does, and was said last. It is asked before it is believed,
// once the scheduler has told the node.
func (l *life) inherit(job api.Job) {
	was := l.before
	if was == nil || was.task != job.Task { // another task's log says nothing of this one
		return
	}
	if l.follower == nil {
		l.from = was.read()
	}
	select {
	case f := <-was.findings: // read, and not considered any more when the job moved
		was.hear(f)
	default:
	}
	switch f := was.said; {
	case l.said.Found: // its own log has told
	case job.Node == "":
		return // it is looked at again when the job starts
	case f.Found && (jobwatch.SameNode(f.Host, job.Node) || was.fresh && !jobwatch.SameNode(f.Host, was.node)):
		l.consider(f, job)
	}
	l.before = nil
}

// read is how far the log was read in this life.
func (l *life) read() []jobwatch.Position {
	if l.follower == nil {
		return l.from
	}
	return l.follower.Position()
}

// hear keeps what the log says by now.
func (l *life) hear(f detect.Finding) {
	l.fresh = l.fresh || l.said.Found && f.Endpoint != l.said.Endpoint
	l.said = f
}

// consider acts on what the log says by now.
func (l *life) consider(f detect.Finding, job api.Job) {
	l.hear(f)
	switch {
	case f.Found && f.Ended:
		l.session.change(func(x *facts) {
			x.endpoint, x.link, x.answers = nil, "", false
			x.doing = fmt.Sprintf("the server of job %s has stopped; waiting for a new one, or for the end of the job", job.ID)
		})
		l.probe.aim(nil)
	case f.Found && f.Link != "":
		l.session.change(func(x *facts) { x.link, x.answers, x.doing = f.Link, true, "" })
	case f.Found:
		l.probe.aim(&aim{finding: f, job: job.ID, node: job.Node, files: l.jobs.RuntimeFiles(runner{l.host}, job)})
	}
}

// offer puts v into a channel of one, replacing what nobody took yet. Only one
// goroutine may offer to a channel.
func offer[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}
