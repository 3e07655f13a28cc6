package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// Watcher talks to the scheduler of one host. All watched jobs share one query, one
// command runs at a time, and nothing is queried while nothing is watched.
type Watcher struct {
	sh     *remote.Shell
	wanted string // the scheduler's name, if the config has it
	host   string // its name in messages
	limits remote.Limits
	log    *slog.Logger

	hostLock    remote.Turn   // taken while a command runs
	wake        chan struct{} // signals Serve that due may have changed
	recheckLogs chan struct{} // signals watchForLogs that it may have another log to look for

	stepTurn       remote.Turn // taken during StepOutput
	nextStepOutput time.Time   // when the next one may begin; owned by who has the turn

	mu        sync.Mutex
	account   account
	sched     sched.Scheduler
	watches   map[*Watch]struct{}
	jobs      []api.Job // the last answer
	lastQuery time.Time // when the last query began
	lastList  time.Time // when the last one for all jobs began
	jobsAt    time.Time // when the query began that jobs is the answer to
	stale     bool      // we changed something since
	soon      bool      // a person acted, or a state is about to change
	early     time.Time // when the one query after a submission may come; zero: none is left
	due       time.Time // when the next periodic query is due
	outage    outage
	cancelled map[string]time.Time    // when we cancelled the jobs that may still be listed
	submitted map[string]submittedJob // the newest, by api.Job.Ref
	usages    map[string]sched.Usage  // of jobs whose scheduler must be asked, by api.Job.Ref
	nextUsage time.Time               // when it may be asked again

	logs *joblog.Reader
}

// NewWatcher returns the Watcher of the host that r reaches.
func NewWatcher(r remote.Runner, o Options) *Watcher {
	limits := cmp.Or(o.Limits, remote.DefaultLimits())
	sh := &remote.Shell{Runner: r, Limit: limits.Command, Private: o.Private}
	return &Watcher{
		sh:          sh,
		wanted:      o.Scheduler,
		host:        cmp.Or(o.Host, "the host"),
		limits:      limits,
		log:         cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		hostLock:    make(remote.Turn, 1),
		wake:        make(chan struct{}, 1),
		recheckLogs: make(chan struct{}, 1),
		stepTurn:    make(remote.Turn, 1),
		watches:     make(map[*Watch]struct{}),
		cancelled:   make(map[string]time.Time),
		submitted:   make(map[string]submittedJob),
		usages:      make(map[string]sched.Usage),
		logs:        joblog.NewReader(sh, limits),
	}
}

// Scheduler returns the name of the host's scheduler.
func (w *Watcher) Scheduler(ctx context.Context) (string, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return "", err
	}
	return s.Kind().Name, nil
}

// KnownScheduler is the name of the host's scheduler, without a query; "" if it is not known.
func (w *Watcher) KnownScheduler() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sched != nil {
		return w.sched.Kind().Name
	}
	return w.wanted
}

// Skew is how far the host's clock was ahead of ours at the last query; 0 if it is not known. The
// times of jobs are by the host's clock.
func (w *Watcher) Skew() time.Duration { return w.sh.Skew() }

// Login returns the login on the host.
func (w *Watcher) Login(ctx context.Context) (string, error) {
	a, err := w.whoami(ctx)
	return a.login, err
}

// Jobs returns the person's jobs that wait or run. The list is at most Limits.QueryMin old.
func (w *Watcher) Jobs(ctx context.Context) ([]api.Job, error) {
	if !w.fresh() {
		if err := w.query(ctx, allJobs); err != nil { // callers during a query share its answer
			return nil, err
		}
	}
	return w.LastJobs(), nil
}

// LastJobs returns the jobs of the last answer, however old, without a query.
func (w *Watcher) LastJobs() []api.Job {
	w.mu.Lock()
	jobs := w.jobs
	w.mu.Unlock()
	return w.markCancelled(jobs...)
}

// Refresh queries the watched jobs, unless that was done within Limits.QueryMin and nothing
// has changed since. It waits for a running query, so that the watches have its answer.
func (w *Watcher) Refresh(ctx context.Context) error {
	w.mu.Lock()
	fresh := !w.soon && time.Since(w.lastQuery) < w.limits.QueryMin
	w.mu.Unlock()
	if !fresh {
		return w.query(ctx, watchedOnly)
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// MaxDetails is how many Detail calls one command of a person may make, at most limit.
func (w *Watcher) MaxDetails(ctx context.Context, limit int) int {
	if s, err := w.scheduler(ctx); err == nil && s.Kind().ShortList {
		return min(limit, w.limits.Connections)
	}
	return limit
}

// Detail returns everything about one job, also an ended one. The boolean is false if the
// scheduler does not know the job.
func (w *Watcher) Detail(ctx context.Context, id string) (api.Job, bool, error) {
	s, unlock, err := w.acquire(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	defer unlock()
	job, err := s.Detail(ctx, w.sh, id)
	if errors.Is(err, sched.ErrNoJob) {
		return api.Job{}, false, nil
	}
	if err == nil && job.State.Ended() {
		w.mu.Lock()
		_, listed := sched.Pick(s, w.jobs, job.Ref())
		w.stale = w.stale || listed
		w.mu.Unlock()
	}
	return w.markCancelled(job)[0], err == nil, err
}

// Recent returns the person's jobs that ended within the last day, oldest first, if the
// host remembers them: Slurm without accounting only knows the last minutes.
func (w *Watcher) Recent(ctx context.Context) ([]api.Job, error) {
	s, unlock, err := w.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	jobs, err := s.History(ctx, w.sh)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !j.State.Ended() || !j.End.IsZero() && time.Since(j.End) > sched.HistoryFor
	})
	slices.SortFunc(jobs, func(a, b api.Job) int { return sched.CompareIDs(a.ID, b.ID) })
	return jobs, nil
}

// Cancel ends a job. A job that has ended already is not an error.
func (w *Watcher) Cancel(ctx context.Context, id string) error {
	s, unlock, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w.log.Info("cancelling a job", "job", id)
	if err := s.Cancel(ctx, w.sh, id); err != nil && !errors.Is(err, sched.ErrNoJob) {
		return err
	}
	w.mu.Lock()
	maps.DeleteFunc(w.cancelled, func(_ string, at time.Time) bool { return time.Since(at) > cancelledFor })
	w.cancelled[id] = time.Now() // so that it is not adopted before the scheduler has ended it
	w.mu.Unlock()
	w.changed()
	return nil
}

// cancelledFor is how long a cancelled job is remembered. PBS reports it as running for up
// to 18 seconds, and for much longer if its node is down.
const cancelledFor = time.Hour

// markCancelled returns the jobs, with those that we cancelled as completing.
func (w *Watcher) markCancelled(jobs ...api.Job) []api.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs = slices.Clone(jobs)
	for i, job := range jobs {
		if w.sched == nil || job.State.Ended() {
			continue
		}
		for id := range w.cancelled {
			if w.sched.Matches(job, id) {
				jobs[i].State, jobs[i].Hint = api.JobCompleting, "the job was cancelled and is about to end"
			}
		}
	}
	return jobs
}

// Extend sets a job's time limit, counted from its start. A total, unlike an increment, can
// be set again when the answer is lost. Most sites let only their staff do this; a refusal
// is an *api.Error with the scheduler's message.
func (w *Watcher) Extend(ctx context.Context, id string, limit time.Duration) error {
	s, unlock, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w.log.Info("extending a job", "job", id, "limit", limit)
	if err := s.Extend(ctx, w.sh, id, limit); err != nil {
		return extendError(id, err)
	}
	w.changed()
	return nil
}

// extendError keeps the scheduler's message and adds what a person can do.
func extendError(id string, err error) error {
	if errors.Is(err, remote.ErrNoAnswer) {
		return err
	}
	if errors.Is(err, sched.ErrNoJob) {
		return api.Errorf(api.CodeJobEnded, "job %s is no longer running, so it cannot be extended", id).Because(err)
	}
	if errors.Is(err, sched.ErrCannotExtend) {
		return api.Errorf(api.CodeFailed, "job %s cannot be extended: %w", id, err).
			WithHint("save your work and start a new job with more time; keep = true starts the next one automatically")
	}
	return api.Errorf(api.CodeFailed, "could not extend job %s: %s", id, api.Redact(err.Error())).Because(err).
		WithHint("many sites let only their staff extend a job: ask their support, or save your work and start a new job; keep = true in the session starts the next one automatically")
}

// JobsAreProcesses reports whether the host has no scheduler, so that a job is a process on the
// login node.
func (w *Watcher) JobsAreProcesses(ctx context.Context) bool {
	k, err := w.kind(ctx)
	return err == nil && k.JobsAreProcesses
}

// HasSteps reports whether programs can be started inside a running job, as with srun.
func (w *Watcher) HasSteps(ctx context.Context) bool {
	s, err := w.scheduler(ctx)
	return err == nil && s.Kind().HasSteps
}

// ErrNoSteps means that the host's scheduler cannot show the output of a running job.
var ErrNoSteps = sched.ErrNoSteps

// StepOutput returns the latest output of a job's running steps. It is the last resort for
// a job without a log, as under srun and salloc, whose output goes to a terminal. It costs
// the host more than any query, so all jobs of a host take turns, Limits.Query apart; ctx
// ends the wait for the turn.
func (w *Watcher) StepOutput(ctx context.Context, id string) ([]byte, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	if !s.Kind().HasSteps {
		return nil, ErrNoSteps
	}
	release, err := w.stepTurn.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := ctxtime.Sleep(ctx, time.Until(w.nextStepOutput)); err != nil {
		return nil, err
	}
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	w.nextStepOutput = time.Now().Add(w.limits.WithJitter(w.limits.Query))
	return s.StepOutput(ctx, w.sh, id)
}

// NewFollower returns a Follower of files on the host, with the Watcher's limits. It shares its
// commands with the other Followers of this Watcher.
func (w *Watcher) NewFollower(o joblog.FollowOptions) *joblog.Follower { return w.logs.NewFollower(o) }

// RuntimeFiles returns the runtime files of a job, which r reads.
func (w *Watcher) RuntimeFiles(r remote.Runner, job api.Job) *joblog.RuntimeFiles {
	return w.logs.RuntimeFiles(r, job, w)
}

// QuerySoon requests the next query as soon as Limits.QueryMin allows: a person acted, or
// something is about to change.
func (w *Watcher) QuerySoon() {
	w.mu.Lock()
	w.soon = true
	w.mu.Unlock()
	signal(w.wake)
}

// changed marks the last answer as stale, because we changed a job.
func (w *Watcher) changed() {
	w.mu.Lock()
	w.stale = true
	w.mu.Unlock()
	w.QuerySoon()
}

// signal wakes the goroutine that receives from c, now or later.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// acquire returns the scheduler once no other command runs on the host. None does until
// unlock is called.
func (w *Watcher) acquire(ctx context.Context) (s sched.Scheduler, unlock func(), err error) {
	if s, err = w.scheduler(ctx); err != nil {
		return nil, nil, err
	}
	unlock, err = w.lockHost(ctx)
	return s, unlock, err
}

// lockHost waits until no other command runs on the host.
func (w *Watcher) lockHost(ctx context.Context) (unlock func(), err error) {
	return w.hostLock.Take(ctx)
}

// kind is the kind of the host's scheduler.
func (w *Watcher) kind(ctx context.Context) (*sched.Kind, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	return s.Kind(), nil
}

func (w *Watcher) scheduler(ctx context.Context) (sched.Scheduler, error) {
	w.mu.Lock()
	known := w.sched
	w.mu.Unlock()
	if known != nil {
		return known, nil
	}
	name := w.wanted
	if name == "" {
		a, err := w.whoami(ctx)
		if err != nil {
			return nil, err
		}
		if name = a.scheduler; name == "" {
			return nil, fmt.Errorf("%w: the commands of several are installed (%s), and none responds", remote.ErrNoAnswer, a.installed)
		}
	}
	if err := unsupportedError(w.host, name); err != nil {
		return nil, err
	}
	s, err := schedulerNamed(name)
	if err != nil {
		return nil, api.Errorf(api.CodeConfig, "%w", err)
	}
	w.mu.Lock()
	w.sched = s
	w.mu.Unlock()
	return s, nil
}

// whoami queries the host once and remembers the answer.
func (w *Watcher) whoami(ctx context.Context) (account, error) {
	unlock, err := w.lockHost(ctx)
	if err != nil {
		return account{}, err
	}
	defer unlock()
	w.mu.Lock()
	known := w.account
	w.mu.Unlock()
	if known != (account{}) {
		return known, nil
	}
	res, err := w.sh.Login(ctx, accountScript())
	if err != nil {
		return account{}, err
	}
	lines := strings.Split(string(res.Stdout), "\n")
	if len(lines) < 4 {
		return account{}, fmt.Errorf("cannot read the user name on the host: unexpected output %q", clip(string(res.Stdout), 200))
	}
	a := account{scheduler: lines[0], login: lines[1], node: lines[2], installed: lines[3]}
	w.log.Debug("identified the host", "scheduler", a.scheduler, "user", a.login, "node", a.node)
	if a.scheduler == "" {
		return a, nil // query it again next time
	}
	w.mu.Lock()
	w.account = a
	w.mu.Unlock()
	return a, nil
}

// clip shortens s to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
