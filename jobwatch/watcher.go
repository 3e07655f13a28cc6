package jobwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tunctl/internal/api"
)

// Watcher speaks to the scheduler of one host, for everybody: all watched jobs share
// one query, one command is under way at a time, and nothing at all is asked while
// nothing is watched.
type Watcher struct {
	sh     *shell
	wanted string // the scheduler's name, when it is given
	limits Limits
	log    *slog.Logger

	gate   chan struct{} // holds a token while a command is under way
	wake   chan struct{} // tells Serve that due may have changed
	relook chan struct{} // tells lookOut that there may be something else to look for

	listening   chan struct{} // holds a token while somebody listens to a job's steps
	listenAgain time.Time     // when that may be done again; of who holds the token

	mu        sync.Mutex
	account   account
	sched     scheduler
	watches   map[*Watch]struct{}
	jobs      []api.Job // the last answer
	asked     time.Time // when the last query began
	listed    time.Time // when the last one for all jobs began
	heard     time.Time // when the one began that jobs is the answer to
	stale     bool      // we changed something since
	soon      bool      // a person acted, or a state is about to change
	due       time.Time // when the next query is to be made by itself
	silence   silence
	cancelled map[string]time.Time // the jobs that we cancelled and that may still be listed, and when
}

// NewWatcher returns the Watcher of the host that r reaches.
func NewWatcher(r Runner, o Options) *Watcher {
	limits := o.Limits.orDefault()
	return &Watcher{
		sh:        &shell{run: r, limit: limits.Command},
		wanted:    o.Scheduler,
		limits:    limits,
		log:       orDiscard(o.Log),
		gate:      make(chan struct{}, 1),
		wake:      make(chan struct{}, 1),
		relook:    make(chan struct{}, 1),
		listening: make(chan struct{}, 1),
		watches:   make(map[*Watch]struct{}),
		cancelled: make(map[string]time.Time),
	}
}

// Scheduler returns the name of the host's scheduler.
func (w *Watcher) Scheduler(ctx context.Context) (string, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return "", err
	}
	return s.name(), nil
}

// User returns the person's name on the host.
func (w *Watcher) User(ctx context.Context) (string, error) {
	a, err := w.whoami(ctx)
	return a.user, err
}

// Jobs returns the person's jobs that wait or run. The answer is at most
// Limits.QueryMin old.
func (w *Watcher) Jobs(ctx context.Context) ([]api.Job, error) {
	if err := w.refresh(ctx); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markCancelledLocked(w.jobs), nil
}

// LastJobs returns the jobs of the last answer, however old that is. It asks nothing.
func (w *Watcher) LastJobs() []api.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markCancelledLocked(w.jobs)
}

// Refresh asks about the watched jobs, unless that was done within Limits.QueryMin and
// nothing has changed since. It waits for a query that is under way, so that the watches
// have its answer.
func (w *Watcher) Refresh(ctx context.Context) error {
	w.mu.Lock()
	fresh := !w.soon && time.Since(w.asked) < w.limits.QueryMin
	w.mu.Unlock()
	if !fresh {
		return w.query(ctx, watchedOnly)
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	leave()
	return nil
}

// MaxDetails is how many jobs may be asked about one by one on a person's word, at most
// most.
func (w *Watcher) MaxDetails(ctx context.Context, most int) int {
	if s, err := w.scheduler(ctx); err == nil {
		if _, ok := s.(selective); ok {
			return min(most, w.limits.Connections)
		}
	}
	return most
}

// Detail returns all that is known about one job, also an ended one. The boolean is
// false when the scheduler knows no such job.
func (w *Watcher) Detail(ctx context.Context, id string) (api.Job, bool, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return api.Job{}, false, err
	}
	defer leave()
	job, err := s.detail(ctx, w.sh, id)
	if errors.Is(err, errNoJob) {
		return api.Job{}, false, nil
	}
	if err == nil && job.State.Ended() {
		w.outdate(s, job.Ref())
	}
	return w.markCancelled(job), err == nil, err
}

// recently is how far back ended jobs are listed.
const recently = 24 * time.Hour

// Recent returns the person's jobs that ended within the last day, oldest first, as
// far as the host remembers them: Slurm without accounting knows the last minutes.
func (w *Watcher) Recent(ctx context.Context) ([]api.Job, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	jobs, err := s.recorded(ctx, w.sh)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j api.Job) bool {
		return !j.State.Ended() || !j.End.IsZero() && time.Since(j.End) > recently
	})
	slices.SortFunc(jobs, func(a, b api.Job) int { return compareIDs(a.ID, b.ID) })
	return jobs, nil
}

// outdate has the list asked for again where the last one still has a job that is
// over.
func (w *Watcher) outdate(s scheduler, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, listed := pick(s, w.jobs, id); listed {
		w.stale = true
	}
}

// Cancel ends a job. A job that has ended already is not an error.
func (w *Watcher) Cancel(ctx context.Context, id string) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		return err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w.log.Info("cancelling a job", "job", id)
	if err := s.cancel(ctx, w.sh, id); err != nil {
		return err
	}
	w.rememberCancelled(id)
	w.changed()
	return nil
}

// cancelledFor is how long a cancelled job is remembered at most. PBS goes on calling it
// running for up to 18 seconds, and where its node is down for much longer.
const cancelledFor = time.Hour

// rememberCancelled notes that a job was cancelled, so that nobody takes it for one that serves
// until the scheduler has ended it.
func (w *Watcher) rememberCancelled(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.cancelled, func(_ string, at time.Time) bool { return time.Since(at) > cancelledFor })
	w.cancelled[id] = time.Now()
}

// markCancelled is the job, about to end if we cancelled it.
func (w *Watcher) markCancelled(job api.Job) api.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.markCancelledLocked([]api.Job{job})[0]
}

// markCancelledLocked returns the jobs, those that we cancelled as ones about to end.
func (w *Watcher) markCancelledLocked(jobs []api.Job) []api.Job {
	jobs = slices.Clone(jobs)
	for i, job := range jobs {
		if w.sched == nil || job.State.Ended() {
			continue
		}
		for id := range w.cancelled {
			if w.sched.is(job, id) {
				jobs[i].State, jobs[i].Hint = api.JobCompleting, "the job was cancelled and is about to end"
			}
		}
	}
	return jobs
}

// Extend sets a job's time limit, counted from its start. The limit is whole and not
// "so much more": when the answer is lost, asking again does no harm. Most sites let
// only their staff do this; a refusal is an *api.Error in the scheduler's own words.
func (w *Watcher) Extend(ctx context.Context, id string, limit time.Duration) error {
	s, err := w.scheduler(ctx)
	if err != nil {
		return err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	w.log.Info("extending a job", "job", id, "limit", limit)
	if err := s.extend(ctx, w.sh, id, limit); err != nil {
		return notExtended(id, err)
	}
	w.changed()
	return nil
}

// notExtended keeps the scheduler's words and adds what a person can do.
func notExtended(id string, err error) error {
	if errors.Is(err, ErrNoAnswer) {
		return err
	}
	if errors.Is(err, errNoJob) {
		return &api.Error{Code: api.CodeJobEnded, Message: fmt.Sprintf("job %s is no longer running, so it cannot be extended", id), Err: err}
	}
	return &api.Error{
		Code: api.CodeFailed, Err: err,
		Message: fmt.Sprintf("could not extend job %s: %s", id, api.Redact(err.Error())),
		Hint:    "many sites let only their staff extend a job: ask their support, or save your work and start a new one; keep = true does that automatically",
	}
}

// ErrNoSteps means that the host's scheduler cannot show what a running job prints.
var ErrNoSteps = errors.New("the scheduler does not show the output of a job")

// StepOutput returns what the running steps of a job printed of late. It is the last
// resort for a job that has no log at all, as under srun and salloc, whose output goes
// to a person's terminal. It costs the host more than any query, so that all jobs of
// a host take turns, Limits.Query apart; ctx ends the wait for one's turn.
func (w *Watcher) StepOutput(ctx context.Context, id string) ([]byte, error) {
	s, err := w.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	steps, ok := s.(stepper)
	if !ok {
		return nil, ErrNoSteps
	}
	select {
	case w.listening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.listening }()
	if err := sleep(ctx, time.Until(w.listenAgain)); err != nil {
		return nil, err
	}
	leave, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	w.listenAgain = time.Now().Add(w.limits.stretch(w.limits.Query))
	return steps.stepOutput(ctx, w.sh, id)
}

// Nudge says that a person acted or that something is about to change: the next
// query is made as soon as Limits.QueryMin allows.
func (w *Watcher) Nudge() {
	w.mu.Lock()
	w.soon = true
	w.mu.Unlock()
	w.poke()
}

// changed notes that the last answer is no longer true.
func (w *Watcher) changed() {
	w.mu.Lock()
	w.stale = true
	w.mu.Unlock()
	w.Nudge()
}

// poke makes Serve look again at when it is to query.
func (w *Watcher) poke() { signal(w.wake) }

// signal wakes whoever waits at c, now or next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// enter waits until no other command is under way on the host.
func (w *Watcher) enter(ctx context.Context) (leave func(), err error) {
	select {
	case w.gate <- struct{}{}:
		return func() { <-w.gate }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *Watcher) scheduler(ctx context.Context) (scheduler, error) {
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
			return nil, fmt.Errorf("%w: both Slurm and PBS commands are installed, and neither responds", ErrNoAnswer)
		}
	}
	s, err := schedulerNamed(name)
	if err != nil {
		return nil, &api.Error{Code: api.CodeConfig, Message: err.Error(), Err: err}
	}
	w.mu.Lock()
	w.sched = s
	w.mu.Unlock()
	return s, nil
}

// whoami asks the host once and remembers.
func (w *Watcher) whoami(ctx context.Context) (account, error) {
	leave, err := w.enter(ctx)
	if err != nil {
		return account{}, err
	}
	defer leave()
	w.mu.Lock()
	known := w.account
	w.mu.Unlock()
	if known != (account{}) {
		return known, nil
	}
	a, err := findAccount(ctx, w.sh)
	if err != nil {
		return account{}, err
	}
	w.log.Debug("identified the host", "scheduler", a.scheduler, "user", a.user, "node", a.node)
	if a.scheduler == "" {
		return a, nil // to be asked again
	}
	w.mu.Lock()
	w.account = a
	w.mu.Unlock()
	return a, nil
}
