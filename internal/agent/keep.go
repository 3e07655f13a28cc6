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
	"tunctl/tunnel"
)

// keepWindow is what a day is to the limit on jobs submitted by themselves.
const keepWindow = 24 * time.Hour

// keeper submits, for a session with keep = true, the job that follows the one that
// runs, early enough to be through the queue when that one ends, and watches it. The
// forward stays where it is until then: nothing that works is taken from a person.
type keeper struct {
	session *session
	host    *tunnel.Host
	jobs    *jobwatch.Watcher
	news    chan api.Job
	retry   time.Time // not before then, after a try that failed
}

func newKeeper(s *session, host *tunnel.Host, jobs *jobwatch.Watcher) *keeper {
	return &keeper{session: s, host: host, jobs: jobs, news: make(chan api.Job, 1)}
}

// serve sees to the next job until ctx ends.
func (k *keeper) serve(ctx context.Context) {
	var job api.Job
	var watch *jobwatch.Watch
	defer func() { closeWatch(watch) }()
	for {
		if watch == nil {
			watch = k.watchNextJob()
		}
		var ring <-chan time.Time
		if due := k.due(job); watch == nil && !due.IsZero() {
			ring = time.After(max(0, min(time.Until(due), wallCheck)))
		}
		select {
		case job = <-k.news:
		case next := <-updatesOf(watch):
			if k.setNext(next); next.State.Ended() {
				closeWatch(watch)
				watch = nil
			}
		case <-ring:
			k.submitWhenDue(ctx, job)
		case <-ctx.Done():
			return
		}
	}
}

// due is when the next job is to be submitted: as long before the end as this one
// waited and half as much again, but not before half of its time. Zero: not at all.
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

// submitWhenDue submits the next job if its time has come. Where the link is lost
// meanwhile it is tried again under the same tag, which never makes a second one.
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

// watchNextJob watches the next job, if there is one.
func (k *keeper) watchNextJob() *jobwatch.Watch {
	next := k.session.agent.store.Session(k.session.name).Next
	if next == nil {
		return nil
	}
	k.session.change(func(f *facts) { f.next = next })
	return k.jobs.Watch(next.Ref())
}

// setNext records the current state of the next job. One that ended early follows nothing.
func (k *keeper) setNext(next api.Job) {
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

// submitNext submits the job that follows job: once for its end, and not more often
// a day than the limit says. That it is to be done is written down before.
func (s *session) submitNext(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	s.mu.Lock()
	cfg := s.cfg
	s.mu.Unlock()
	tag, err := s.permitNext(job)
	if errors.Is(err, errKeepLimit) {
		return api.Job{}, s.skipNext(job, fmt.Errorf("%w; start the session yourself when you need it", err))
	}
	if err != nil {
		return api.Job{}, err
	}
	sub, err := s.agent.submission(ctx, cfg, jobs, tag)
	if err != nil {
		return api.Job{}, s.skipNext(job, err)
	}
	next, err := s.agent.submitFor(ctx, cfg, jobs, sub)
	if e, ok := asAPI(err); ok && (e.Code == api.CodeSubmit || e.Code == api.CodeNeedsPerson) {
		return api.Job{}, s.skipNext(job, err)
	}
	if err != nil { // the link: the same tag finds out at the next try
		s.agent.log.Warn("cannot submit the next job", "session", s.name, "err", err)
		return api.Job{}, err
	}
	_ = s.record(func(r *state.Session) { r.Next, r.KeptFor = &next, job.ID }, func(f *facts) { f.next = &next })
	return next, nil
}

// errKeepLimit says that a day's limit is reached.
var errKeepLimit = errors.New("keep = true has reached its limit of jobs per day")

// nextTag names the submission of the job that follows job. It follows from that job
// alone, so that whoever else keeps it, an agent with other state or another laptop,
// comes to the same tag and finds the one next job. Clusters that share a home number
// their jobs alike, and a cluster that is reinstalled starts again at 1: the time of
// submission, which the scheduler tells everybody alike, keeps them apart.
func nextTag(job api.Job) string {
	number, _, _ := strings.Cut(job.ID, ".") // PBS adds its server's name, or not
	return fmt.Sprintf("after-%s-%d", notInTags.ReplaceAllString(number, "-"), job.Submitted.Unix())
}

var notInTags = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// permitNext hands out the tag of the job that follows job, and counts it.
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

// successor is the job that takes over from one that is over: the one that keep has
// submitted, or, where the end came while nobody could, one submitted now.
func (s *session) successor(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, bool) {
	if !s.keepsJob() || ctx.Err() != nil {
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

// keeps reports whether a next job is to follow by itself.
func (s *session) keepsJob() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Keep
}

// cancelNext ends the job that would follow, with the one that it follows.
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
