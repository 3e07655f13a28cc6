package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/internal/lists"
	"tunctl/jobwatch/sched"
)

// poll is the part of a Watcher that all watches share: the query for the jobs of a host.
type poll struct {
	host *host
	wake chan struct{} // signals Serve that due may have changed

	mu        sync.Mutex
	watches   map[*Watch]struct{}
	jobs      []api.Job // the last answer
	lastQuery time.Time // when the last query began
	lastList  time.Time // when the last one for all jobs began
	jobsAt    time.Time // when the query began that jobs is the answer to
	stale     bool      // we changed something since
	soon      bool      // the user acted, or a state is about to change
	early     time.Time // when the one query after a submission may come; zero: none is left
	due       time.Time // when the next periodic query is due
	outage    outage
	cancelled map[string]time.Time    // when we cancelled the jobs that may still be listed
	submitted map[string]submittedJob // the newest, by api.Job.Ref
}

func newPoll(h *host) *poll {
	return &poll{
		host:      h,
		wake:      make(chan struct{}, 1),
		watches:   make(map[*Watch]struct{}),
		cancelled: make(map[string]time.Time),
		submitted: make(map[string]submittedJob),
	}
}

// Serve makes the shared query while anything is watched, until ctx ends.
func (p *poll) Serve(ctx context.Context) error {
	for {
		if err := p.pause(ctx); err != nil {
			return err
		}
		if err := p.query(ctx, watchedOnly); err != nil && ctx.Err() == nil {
			p.host.Log.Debug("scheduler query failed", "err", err)
		}
	}
}

// pause waits until the next query is due.
func (p *poll) pause(ctx context.Context) error {
	for {
		at, ok := p.nextQuery()
		if ok && time.Until(at) <= 0 || !ctxtime.SleepUntil(ctx, at, p.wake) {
			return ctx.Err()
		}
	}
}

func (p *poll) newWatch(id string, passive bool) *Watch {
	x := &Watch{id: id, poll: p, c: make(chan Report, 1), began: time.Now(), passive: passive}
	x.job.ID, x.job.Cluster = sched.SplitRef(id)
	x.job.State = api.JobUnknown
	return x
}

// Watch begins to watch a job, by its id or its api.Job.Ref. For an array it reports the
// running task. Close ends it.
func (p *poll) Watch(id string) *Watch {
	x := p.newWatch(id, false)
	p.mu.Lock()
	if s, ok := p.submitted[id]; ok && time.Since(s.at) < Grace && !s.job.State.Ended() {
		x.job, x.submitted = s.job, s.at
	}
	if p.isEarlyLocked() && !p.anyActiveLocked() {
		p.early = time.Time{} // nobody watched when it was due
	}
	p.watches[x] = struct{}{}
	p.soon = true
	p.mu.Unlock()
	latest.Signal(p.wake)
	return x
}

// Observe is Watch without queries of its own: it reports the job whenever the scheduler is
// queried for another reason.
func (p *poll) Observe(id string) *Watch {
	x := p.newWatch(id, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[x] = struct{}{}
	return x
}

// scope is which jobs a query is for.
type scope bool

const (
	allJobs     scope = true
	watchedOnly scope = false // if the scheduler can be queried for them alone
)

// query queries the scheduler and updates the watches.
func (p *poll) query(ctx context.Context, jobs scope) error {
	s, err := p.host.scheduler(ctx)
	if err != nil {
		p.recordFailure(err)
		return err
	}
	if err := p.host.turn.Lock(ctx); err != nil {
		return err
	}
	defer p.host.turn.Unlock()
	if p.fresh(jobs) {
		p.scheduleNext()
		return nil
	}
	if err := p.waitQueryMin(ctx, jobs); err != nil {
		return err
	}
	watches := p.activeWatches()
	if !s.Kind().ShortList || len(watches) > s.PerRound(p.host.Limits.Connections) {
		jobs = allJobs
	}
	early := p.beginQuery(jobs)
	if jobs == watchedOnly {
		err = p.queryWatched(ctx, s, watches)
	} else {
		err = p.queryAll(ctx, s)
	}
	if err != nil {
		p.recordFailure(err)
		return err
	}
	if early && slices.ContainsFunc(p.activeWatches(), func(x *Watch) bool { return !x.passive && x.Job().Node == "" }) {
		p.QuerySoon() // it was too early
	}
	p.scheduleNext()
	return nil
}

func (p *poll) queryAll(ctx context.Context, s sched.Scheduler) error {
	jobs, err := s.List(ctx, p.host.sh)
	if err != nil {
		return err
	}
	p.recordAnswer()
	p.mu.Lock()
	p.jobs, p.jobsAt = jobs, p.lastList
	p.mu.Unlock()
	p.updateWatches(ctx, s, jobs)
	return nil
}

// queryWatched queries only the watched jobs, with their details.
func (p *poll) queryWatched(ctx context.Context, s sched.Scheduler, watches []*Watch) error {
	if len(watches) == 0 {
		return nil
	}
	jobs, err := s.Details(ctx, p.host.sh, lists.Map(watches, func(x *Watch) string { return x.id }))
	if err != nil {
		return err
	}
	p.recordAnswer()
	for _, x := range watches {
		if job, found := sched.Pick(s, jobs, x.id); found {
			x.setDetail(api.Job{})
			x.update(s, job)
		} else {
			p.updateMissing(s, x)
		}
	}
	return nil
}

// activeWatches returns the watches of jobs that have not ended, sorted by id.
func (p *poll) activeWatches() []*Watch {
	p.mu.Lock()
	defer p.mu.Unlock()
	var active []*Watch
	for x := range p.watches {
		if x.isActiveLocked() {
			active = append(active, x)
		}
	}
	slices.SortFunc(active, func(a, b *Watch) int { return sched.CompareIDs(a.id, b.id) })
	return active
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
// that none takes the turns of others; one that has no detail waits for the others, but for the second
// look after a job that is missing. Where a detail costs a connection there are few turns, and none is
// left unused.
func (p *poll) updateWatches(ctx context.Context, s sched.Scheduler, jobs []api.Job) {
	few := s.Kind().ShortList
	turns := detailsPerRound
	if few {
		turns = p.host.Limits.Connections - 1
	}
	var queue []listing
	due := 0
	for _, x := range p.activeWatches() {
		l := listing{watch: x}
		l.row, l.listed = sched.Pick(s, jobs, x.id)
		if !s.Kind().JobsAreProcesses {
			l.row.Log = "" // the list's guess is not certain enough to read
		}
		if l.job = x.withKnownNode(l.row); few {
			l.job = x.withKnownFacts(l.row)
		}
		wanted := !l.listed || x.wantsDetail(s, l.row)
		again := !l.listed && time.Since(x.detail.at) >= p.host.Limits.LookApart()
		if l.due = wanted && (!x.detail.failed || again); l.due {
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
	turns = min(turns, len(queue))
	for _, l := range queue[:turns] {
		p.updateFromDetail(ctx, s, l)
	}
	for _, l := range queue[turns:] {
		if !l.listed && l.watch.isMissed() { // its detail was not there, and this is a second look
			p.updateMissing(s, l.watch)
		}
	}
	if due > turns {
		p.QuerySoon() // for the next round
	}
}

func (p *poll) updateFromDetail(ctx context.Context, s sched.Scheduler, l listing) {
	x, id := l.watch, l.watch.id
	if l.listed {
		id = l.row.Ref()
	}
	detail, err := s.Detail(ctx, p.host.sh, id)
	x.detail.at, x.detail.failed = time.Now(), err != nil
	switch {
	case err == nil:
		x.setDetail(l.row)
		x.update(s, detail)
	case l.listed:
		p.host.Log.Debug("no detail of a job", "job", id, "err", err)
		x.update(s, l.job)
	case errors.Is(err, sched.ErrNoJob):
		p.updateMissing(s, x)
	default:
		p.host.Log.Debug("no record of a job that left the queue", "job", id, "err", err)
	}
}

// updateMissing marks the watch's job as gone, once that is certain.
func (p *poll) updateMissing(s sched.Scheduler, x *Watch) {
	if !x.confirmMissing(s) {
		p.host.Log.Debug("the scheduler does not know a job", "job", x.id)
		return
	}
	x.update(s, x.gone(s))
}

// lastJobs returns the jobs of the last answer, however old, without a query, and when they were asked for.
func (p *poll) lastJobs() (jobs []api.Job, asked time.Time) {
	p.mu.Lock()
	jobs, asked = p.jobs, p.jobsAt
	p.mu.Unlock()
	return p.markCancelled(jobs...), asked
}

// Refresh queries the watched jobs, unless that was done within Limits.QueryMin and nothing
// has changed since. It waits for a running query, so that the watches have its answer.
func (p *poll) Refresh(ctx context.Context) error {
	p.mu.Lock()
	fresh := !p.soon && time.Since(p.lastQuery) < p.host.Limits.QueryMin
	p.mu.Unlock()
	if !fresh {
		return p.query(ctx, watchedOnly)
	}
	if err := p.host.turn.Lock(ctx); err != nil {
		return err
	}
	p.host.turn.Unlock()
	return nil
}

// recordEnd records that a job has ended: a list that has it is stale.
func (p *poll) recordEnd(s sched.Scheduler, job api.Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, listed := sched.Pick(s, p.jobs, job.Ref())
	p.stale = p.stale || listed
}

// recordCancelled records that we cancelled a job, so that it is not adopted before the scheduler
// has ended it, and tells who watches it.
func (p *poll) recordCancelled(id string) {
	s := p.host.known()
	p.mu.Lock()
	maps.DeleteFunc(p.cancelled, func(_ string, at time.Time) bool { return time.Since(at) > cancelledFor })
	p.cancelled[id] = time.Now()
	for x := range p.watches {
		x.publishLocked(p.asCancelledLocked(s, x.job))
	}
	p.mu.Unlock()
	p.QuerySoon() // until then, the last list counts with the job as completing
}

// cancelledFor is how long a cancelled job is remembered. PBS reports it as running for up
// to 18 seconds, and for much longer if its node is down.
const cancelledFor = time.Hour

// markCancelled returns the jobs, with those that we cancelled as completing.
func (p *poll) markCancelled(jobs ...api.Job) []api.Job {
	s := p.host.known()
	p.mu.Lock()
	defer p.mu.Unlock()
	return lists.Map(jobs, func(j api.Job) api.Job { return p.asCancelledLocked(s, j) })
}

// asCancelledLocked returns a job as completing if we cancelled it and it has not ended.
func (p *poll) asCancelledLocked(s sched.Scheduler, job api.Job) api.Job {
	for id := range p.cancelled {
		if s != nil && !job.State.Ended() && s.Matches(job, id) {
			return job.Cancelled()
		}
	}
	return job
}

// submittedJob is a job that we submitted, as the scheduler reported it then.
type submittedJob struct {
	job api.Job
	at  time.Time
}

// recordSubmitted records a job that was submitted, so that its watch recognizes its start.
func (p *poll) recordSubmitted(job api.Job, awaited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.submitted, func(_ string, s submittedJob) bool { return time.Since(s.at) > Grace })
	p.submitted[job.Ref()] = submittedJob{job, time.Now()}
	if awaited && p.host.Limits.QueryAfterSubmit > 0 {
		p.early = time.Now().Add(p.host.Limits.WithJitter(p.host.Limits.QueryAfterSubmit))
	}
}
