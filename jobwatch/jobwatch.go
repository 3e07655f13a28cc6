// Package jobwatch handles jobs: it queries a host's scheduler, submits and cancels jobs, and
// finds those that were started before. A [Watcher], one per host, talks to the scheduler: Slurm,
// PBS, Grid Engine, or none. All watched jobs share one query; see [remote.Limits].
//
// Package joblog follows the logs of jobs, and package detect finds the server's address in them.
// Scripts run on the login node by package remote; nothing here knows SSH.
package jobwatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/joblog"
	"tunctl/jobwatch/remote"
	"tunctl/jobwatch/sched"
)

// Options configure a Watcher.
type Options struct {
	// Host is the host's name in messages.
	Host string
	// Scheduler is Slurm, PBS, GridEngine or None; if it is empty, the Watcher finds out.
	Scheduler string
	// Private is the folder for our files on the host, as text for double quotes of sh; its
	// last part is ".tunctl". "" is that of the home folder.
	Private string
	// Limits default to remote.DefaultLimits.
	Limits remote.Limits
	// Log may be nil.
	Log *slog.Logger
}

// Watcher talks to the scheduler of one host. All watched jobs share one query, one
// command runs at a time, and nothing is queried while nothing is watched.
type Watcher struct {
	*poll
	logs   *joblog.Reader
	usages usages
	free   atomic.Pointer[api.Free] // the last answer of Free

	stepTurn       ctxtime.Mutex // taken during StepOutput
	nextStepOutput time.Time     // when the next one may begin; owned by who has the turn
}

// NewWatcher returns the Watcher of the host that r reaches.
func NewWatcher(r remote.Runner, o Options) *Watcher {
	o.Host = cmp.Or(o.Host, "the host")
	o.Limits = cmp.Or(o.Limits, remote.DefaultLimits())
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	h := &host{Options: o, sh: &remote.Shell{Runner: r, Limit: o.Limits.Command, Private: o.Private}, turn: ctxtime.NewMutex()}
	return &Watcher{
		poll: newPoll(h), logs: joblog.NewReader(h.sh, o.Limits),
		usages:   usages{last: make(map[string]sched.Usage)},
		stepTurn: ctxtime.NewMutex(),
	}
}

// Scheduler returns the name of the host's scheduler.
func (w *Watcher) Scheduler(ctx context.Context) (string, error) {
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return "", err
	}
	return s.Kind().Name, nil
}

// KnownScheduler is the name of the host's scheduler, without a query; "" if it is not known.
func (w *Watcher) KnownScheduler() string { return w.host.knownName() }

// Skew is how far the host's clock was ahead of ours at the last query; 0 if it is not known. The
// times of jobs are by the host's clock.
func (w *Watcher) Skew() time.Duration { return w.host.sh.Skew() }

// Login returns the login on the host.
func (w *Watcher) Login(ctx context.Context) (string, error) {
	a, err := w.host.whoami(ctx)
	return a.login, err
}

// Jobs returns the user's jobs that wait or run. The list is at most Limits.QueryMin old.
func (w *Watcher) Jobs(ctx context.Context) ([]api.Job, error) {
	jobs, _, err := w.listed(ctx)
	return jobs, err
}

// listed is Jobs, and when they were asked for.
func (w *Watcher) listed(ctx context.Context) (jobs []api.Job, asked time.Time, err error) {
	if !w.fresh(allJobs) {
		if err := w.query(ctx, allJobs); err != nil { // callers during a query share its answer
			return nil, time.Time{}, err
		}
	}
	jobs, asked = w.lastJobs()
	return jobs, asked, nil
}

// CompareJobs orders jobs for people: those that run, those that wait and those that are over, each
// by number.
func CompareJobs(a, b api.Job) int {
	return cmp.Or(
		sched.TrueFirst(!a.State.Ended(), !b.State.Ended()),
		sched.TrueFirst(!a.State.Waiting(), !b.State.Waiting()),
		sched.CompareIDs(a.ID, b.ID),
	)
}

// LastJobs returns the jobs of the last answer, however old, without a query.
func (w *Watcher) LastJobs() []api.Job {
	jobs, _ := w.lastJobs()
	return jobs
}

// Drafts returns the drafts of submissions to the host.
func (w *Watcher) Drafts() *Drafts { return &Drafts{w.host, map[string]string{}} }

// MaxDetails is how many Detail calls one command of the user may make, at most limit.
func (w *Watcher) MaxDetails(ctx context.Context, limit int) int {
	if s, err := w.host.scheduler(ctx); err == nil && s.Kind().ShortList {
		return min(limit, w.host.Limits.Connections)
	}
	return limit
}

// Detail returns everything about one job, also an ended one. The boolean is false if the
// scheduler does not know the job.
func (w *Watcher) Detail(ctx context.Context, id string) (api.Job, bool, error) {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	defer unlock()
	job, err := s.Detail(ctx, w.host.sh, id)
	if errors.Is(err, sched.ErrNoJob) {
		return api.Job{}, false, nil
	}
	if err == nil && job.State.Ended() {
		w.recordEnd(s, job)
	}
	return w.markCancelled(job)[0], err == nil, err
}

// Recent returns the user's jobs that ended within the last day, oldest first, if the
// host remembers them: Slurm without accounting only knows the last minutes.
func (w *Watcher) Recent(ctx context.Context) ([]api.Job, error) {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	jobs, err := s.History(ctx, w.host.sh)
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
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w.host.Log.Info("cancelling a job", "job", id)
	if err := s.Cancel(ctx, w.host.sh, id); err != nil && !errors.Is(err, sched.ErrNoJob) {
		return err
	}
	w.recordCancelled(id)
	return nil
}

// Extend sets a job's time limit, counted from its start. A total, unlike an increment, can
// be set again when the answer is lost. Most sites let only their staff do this; a refusal
// is an *api.Error with the scheduler's message.
func (w *Watcher) Extend(ctx context.Context, id string, limit time.Duration) error {
	s, unlock, err := w.host.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w.host.Log.Info("extending a job", "job", id, "limit", limit)
	if err := s.Extend(ctx, w.host.sh, id, limit); err != nil {
		return extendError(id, err)
	}
	w.changed()
	return nil
}

// extendError keeps the scheduler's message and adds what the user can do.
func extendError(id string, err error) error {
	if errors.Is(err, remote.ErrNoAnswer) {
		return err
	}
	if errors.Is(err, sched.ErrNoJob) {
		return api.Errorf(api.CodeJobEnded, "job %s is no longer running", id).Because(err)
	}
	if errors.Is(err, sched.ErrCannotExtend) {
		return api.Errorf(api.CodeFailed, "%w", err).
			WithHint("save your work and start a new job with more time; keep = true starts the next one automatically")
	}
	return api.Errorf(api.CodeFailed, "could not extend job %s: %s", id, api.Redact(err.Error())).Because(err).
		WithHint("no job gets more than the longest time that `tunctl free` shows, and many sites let only their staff extend one: ask their support, or save your work and start a new job; keep = true in the session starts the next one automatically")
}

// JobsAreProcesses reports whether the host has no scheduler, so that a job is a process on the
// login node.
func (w *Watcher) JobsAreProcesses(ctx context.Context) bool {
	k, err := w.host.kind(ctx)
	return err == nil && k.JobsAreProcesses
}

// MaySubmit reports why no job may be submitted to the host, whatever it asks for.
func (w *Watcher) MaySubmit(ctx context.Context) error {
	k, err := w.host.kind(ctx)
	if err != nil {
		return err
	}
	return w.host.processError(k)
}

// HasSteps reports whether programs can be started inside a running job, as with srun.
func (w *Watcher) HasSteps(ctx context.Context) bool {
	s, err := w.host.scheduler(ctx)
	return err == nil && s.Kind().HasSteps
}

// ErrNoSteps means that the host's scheduler cannot show the output of a running job.
var ErrNoSteps = sched.ErrNoSteps

// StepOutput returns the latest output of a job's running steps. It is the last resort for
// a job without a log, as under srun and salloc, whose output goes to a terminal. It costs
// the host more than any query, so all jobs of a host take turns, Limits.Query apart; ctx
// ends the wait for the turn.
func (w *Watcher) StepOutput(ctx context.Context, id string) ([]byte, error) {
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	if !s.Kind().HasSteps {
		return nil, ErrNoSteps
	}
	if err := w.stepTurn.Lock(ctx); err != nil {
		return nil, err
	}
	defer w.stepTurn.Unlock()
	if err := ctxtime.Sleep(ctx, time.Until(w.nextStepOutput)); err != nil {
		return nil, err
	}
	if err := w.host.turn.Lock(ctx); err != nil {
		return nil, err
	}
	defer w.host.turn.Unlock()
	w.nextStepOutput = time.Now().Add(w.host.Limits.WithJitter(w.host.Limits.Query))
	return s.StepOutput(ctx, w.host.sh, id)
}

// NewFollower returns a Follower of files on the host, with the Watcher's limits. It shares its
// commands with the other Followers of this Watcher.
func (w *Watcher) NewFollower(o joblog.FollowOptions) *joblog.Follower { return w.logs.NewFollower(o) }

// RuntimeFiles returns the runtime files of a job, which r reads.
func (w *Watcher) RuntimeFiles(r remote.Runner, job api.Job) *joblog.RuntimeFiles {
	return w.logs.RuntimeFiles(r, job, w)
}

// Usage returns what the scheduler has counted for a running job. PBS tells it with every
// answer about the job, and is not asked; Slurm is asked once per Limits.Query for all jobs
// of the host, and in between the last answer is returned.
func (w *Watcher) Usage(ctx context.Context, ref string) (sched.Usage, error) {
	s, err := w.host.scheduler(ctx)
	if err != nil {
		return sched.Usage{}, err
	}
	if !s.Kind().HasSteps {
		return s.Usage(ctx, w.host.sh, ref, 0)
	}
	last, due := w.usages.get(ref, w.host.Limits.WithJitter(w.host.Limits.Query))
	if !due {
		if last.At.IsZero() {
			return sched.Usage{}, sched.ErrNoUsage
		}
		return last, nil
	}
	if err := w.host.turn.Lock(ctx); err != nil {
		return sched.Usage{}, err
	}
	defer w.host.turn.Unlock()
	u, err := s.Usage(ctx, w.host.sh, ref, last.CPUs)
	if err != nil {
		return sched.Usage{}, err
	}
	w.usages.set(ref, u)
	return u, nil
}

// usages are the last answers about what jobs use, by api.Job.Ref.
type usages struct {
	mu   sync.Mutex
	last map[string]sched.Usage
	next time.Time // when the scheduler may be asked again
}

// get returns the last answer about a job. due says that the caller is to ask again; others are not,
// for so long.
func (u *usages) get(ref string, pause time.Duration) (last sched.Usage, due bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.last, func(_ string, x sched.Usage) bool { return time.Since(x.At) > sched.UsageFor })
	if due = !time.Now().Before(u.next); due {
		u.next = time.Now().Add(pause)
	}
	return u.last[ref], due
}

func (u *usages) set(ref string, usage sched.Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[ref] = usage
}
