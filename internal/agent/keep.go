package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
)

// keepWindow is the day of Limits.KeepPerDay.
const keepWindow = 24 * time.Hour

// keeper submits the next job of a session with keep = true, early enough to have left
// the queue when the running job ends, and watches it. Until then the forward stays with
// the running job: nothing that works is taken away.
type keeper struct {
	session *session
	jobs    *jobwatch.Watcher
	updates chan api.Job
	retry   time.Time // not before then, after a failure
}

func newKeeper(s *session, jobs *jobwatch.Watcher) *keeper {
	return &keeper{session: s, jobs: jobs, updates: make(chan api.Job, 1)}
}

// serve submits and watches the next job until ctx ends.
func (k *keeper) serve(ctx context.Context) {
	var job api.Job
	var watch *jobwatch.Watch
	defer func() { closeWatch(watch) }()
	for {
		if watch == nil {
			watch = k.watchNextJob()
		}
		var due <-chan time.Time
		if watch == nil {
			due = wallTimer(k.due(job))
		}
		select {
		case job = <-k.updates:
		case next := <-updatesOf(watch):
			if k.handleNext(next); next.State.Ended() {
				closeWatch(watch)
				watch = nil
			}
		case <-due:
			k.submitWhenDue(ctx, job)
		case <-ctx.Done():
			return
		}
	}
}

// due is when to submit the next job: before the end by one and a half times as long as
// this job waited, but not in the first half of its run time. Zero means never.
func (k *keeper) due(job api.Job) time.Time {
	if job.State != api.JobRunning || job.End.IsZero() || k.session.agent.store.Session(k.session.name).KeptFor == job.ID {
		return time.Time{}
	}
	at := keepAt(job, k.session.agent.limits.KeepLead)
	if at.Before(k.retry) {
		return k.retry
	}
	return at
}

func keepAt(job api.Job, lead time.Duration) time.Time {
	if !job.Submitted.IsZero() && job.Start.After(job.Submitted) {
		lead = max(lead, job.Start.Sub(job.Submitted)*3/2)
	}
	if !job.Start.IsZero() {
		lead = min(lead, job.End.Sub(job.Start)/2)
	}
	return job.End.Add(-lead)
}

// submitWhenDue submits the next job when it is due. After a lost connection it retries
// with the same tag, which never makes a second job.
func (k *keeper) submitWhenDue(ctx context.Context, job api.Job) {
	if due := k.due(job); due.IsZero() || due.After(time.Now()) {
		return
	}
	next, err := k.session.submitNext(ctx, k.jobs, job)
	if err != nil {
		k.retry = time.Now().Add(k.session.agent.limits.KeepRetry)
		return
	}
	k.session.notify(fmt.Sprintf("the next job of %s is queued: job %s follows job %s, which ends at %s", k.session.name, next.ID, job.ID, clock(job.End, time.Now())))
}

// watchNextJob watches the next job, if any.
func (k *keeper) watchNextJob() *jobwatch.Watch {
	next := k.session.agent.store.Session(k.session.name).Next
	if next == nil {
		return nil
	}
	k.session.change(func(f *facts) { f.next = next })
	return k.jobs.Watch(next.Ref())
}

// handleNext records the current state of the next job. One that ended early follows nothing.
func (k *keeper) handleNext(next api.Job) {
	if next.State == api.JobUnknown {
		return
	}
	kept := &next
	if next.State.Ended() {
		kept = nil
		k.session.recordRun(next)
		k.session.notify(fmt.Sprintf("the next job of %s ended early: %s", k.session.name, endText(&next)))
	}
	k.session.setNext(kept)
}

func updatesOf(w *jobwatch.Watch) <-chan api.Job {
	if w == nil {
		return nil
	}
	return w.C()
}

func closeWatch(w *jobwatch.Watch) {
	if w != nil {
		w.Close()
	}
}

// submitNext submits the job that follows job: once, and no more per day than the limit
// allows. Its tag is saved first.
func (s *session) submitNext(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	cfg := s.config()
	if s.agent.store.Session(s.name).Assisted {
		return api.Job{}, s.skipNext(job, fmt.Errorf("an assistant started it; `tunctl up %s` starts the next one", s.name))
	}
	tag, err := s.permitNext(job)
	if errors.Is(err, errKeepLimit) {
		return api.Job{}, s.skipNext(job, fmt.Errorf("%w; start the session yourself when you need it", err))
	}
	if err != nil {
		return api.Job{}, err
	}
	sub, err := s.agent.submission(ctx, cfg, jobs, tag, s.agent.store.Session(s.name).With)
	if err != nil {
		return api.Job{}, s.skipNext(job, err)
	}
	next, err := s.agent.submitFor(ctx, cfg, jobs, sub)
	if e, ok := asAPI(err); ok && (e.Code == api.CodeSubmit || e.Code == api.CodeNeedsPerson) {
		return api.Job{}, s.skipNext(job, err)
	}
	if err != nil { // a lost connection: the next attempt uses the same tag
		s.agent.log.Warn("cannot submit the next job", "session", s.name, "err", err)
		return api.Job{}, err
	}
	_ = s.record(func(r *state.Session) { r.Next, r.KeptFor = &next, job.ID }, func(f *facts) { f.next = &next })
	return next, nil
}

// errKeepLimit says that the limit of a day is reached.
var errKeepLimit = errors.New("keep = true has reached its limit of jobs per day")

// nextTag is the tag of the job that follows job. It depends on that job alone, so that
// another agent, as on another laptop, gets the same tag and finds the one next job.
// Clusters with a common home may use the same job IDs, and a reinstalled cluster starts
// again at 1: the time of submission, which is the same for everybody, tells them apart.
func nextTag(job api.Job) string {
	number, _, _ := strings.Cut(job.ID, ".") // PBS may add the name of its server
	return fmt.Sprintf("after-%s-%d", notInTags.ReplaceAllString(number, "-"), job.Submitted.Unix())
}

var notInTags = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// permitNext returns the tag of the job that follows job, and counts it.
func (s *session) permitNext(job api.Job) (string, error) {
	rec := s.agent.store.Session(s.name)
	if rec.NextTag != "" {
		return rec.NextTag, nil // counted already
	}
	now := time.Now()
	today := slices.DeleteFunc(slices.Clone(rec.Kept), func(t time.Time) bool { return now.Sub(t) > keepWindow })
	if len(today) >= s.agent.limits.KeepPerDay {
		return "", errKeepLimit
	}
	tag := nextTag(job)
	today = append(today, now)
	if err := s.record(func(r *state.Session) { r.NextTag, r.Kept = tag, today }, nil); err != nil {
		return "", fmt.Errorf("the next job was not submitted: %w", err)
	}
	return tag, nil
}

// skipNext gives up the job that would follow this one, and says why.
func (s *session) skipNext(job api.Job, why error) error {
	_ = s.record(func(r *state.Session) { r.KeptFor, r.NextTag = job.ID, "" }, nil)
	s.notify(fmt.Sprintf("no job follows job %s: %v", job.ID, why))
	return why
}

// successor is the job that takes over from one that is over: the one that the keeper has
// submitted or, if it could not before the end, one submitted now.
func (s *session) successor(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, bool) {
	if !s.config().Keep || ctx.Err() != nil {
		return api.Job{}, false
	}
	rec := s.agent.store.Session(s.name)
	for job.State == api.JobTimeout && rec.Next == nil && rec.KeptFor != job.ID {
		s.change(func(f *facts) {
			f.submitting, f.doing = true, fmt.Sprintf("job %s reached its time limit; submitting the next one", job.ID)
		})
		if _, err := s.submitNext(ctx, jobs, job); err != nil && ctxtime.Sleep(ctx, s.agent.limits.KeepRetry) != nil {
			return api.Job{}, false
		}
		rec = s.agent.store.Session(s.name)
	}
	if rec.Next == nil {
		return api.Job{}, false
	}
	next := *rec.Next
	s.promoteNext(next)
	s.notify(fmt.Sprintf("job %s has ended: job %s takes over", job.ID, next.ID))
	return next, true
}

// cancelNext cancels the next job, after the one that it follows was cancelled.
func (s *session) cancelNext(ctx context.Context, jobs *jobwatch.Watcher) error {
	next := s.agent.store.Session(s.name).Next
	if next == nil {
		return nil
	}
	if err := jobs.Cancel(ctx, next.Ref()); err != nil {
		return err
	}
	_ = s.record(func(r *state.Session) { r.Next, r.NextTag = nil, "" }, nil)
	return nil
}
