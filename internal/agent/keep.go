package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
)

// keepWindow is the day of Limits.KeepPerDay.
const keepWindow = 24 * time.Hour

// keepSlack is how much too early the next job may be: the end of a job may be reported
// differently by a few seconds.
const keepSlack = 2 * time.Minute

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
	var watch *jobwatch.Watch // on the next job; nil: there is none
	defer func() { closeWatch(watch) }()
	for {
		next := k.session.agent.store.Session(k.session.name).Next().Job
		switch {
		case next == nil:
			closeWatch(watch)
			watch = nil
		case watch == nil:
			k.session.change(func(f *facts.Facts) { f.Next = next })
			watch = k.jobs.Watch(next.Ref())
		}
		var due <-chan time.Time
		var updates <-chan jobwatch.Report
		if watch != nil {
			updates = watch.C()
		} else if !k.session.isFollowed(job) {
			due = wallTimer(k.due(job))
		}
		select {
		case job = <-k.updates:
			if k.due(job).After(time.Now().Add(keepSlack)) {
				k.session.cancelNext(fmt.Sprintf("job %s was extended", job.ID))
			}
		case next := <-updates:
			k.handleNext(k.session.asRecorded(next.Job))
		case <-due:
			// A person may have cancelled it meanwhile.
			if due := k.due(job); !due.IsZero() && !due.After(time.Now()) && !k.session.isFollowed(job) {
				k.submit(ctx, job)
			}
		case <-ctx.Done():
			return
		}
	}
}

// due is when to submit the next job, by our clock: before the end by one and a half times as long
// as this job waited, but not in the first half of its run time. Zero means never.
func (k *keeper) due(job api.Job) time.Time {
	at := k.session.nextDue(k.jobs, job)
	if !at.IsZero() && at.Before(k.retry) {
		return k.retry
	}
	return at
}

func (s *session) nextDue(jobs *jobwatch.Watcher, job api.Job) time.Time {
	if !s.config().Keep || job.State != api.JobRunning || job.End.IsZero() {
		return time.Time{}
	}
	return keepAt(job, s.agent.limits.KeepLead).Add(-jobs.Skew()) // the times of jobs are by the host's clock
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

// submit submits the next job. After a lost connection it retries
// with the same tag, which never makes a second job.
func (k *keeper) submit(ctx context.Context, job api.Job) {
	next, err := k.session.submitNext(ctx, k.jobs, job)
	if err != nil {
		k.retry = time.Now().Add(k.session.agent.limits.KeepRetry)
		return
	}
	k.session.notify(api.NoticeTimeLimit, fmt.Sprintf("the next job of %s is queued: job %s follows job %s, which ends at %s", k.session.name, next.ID, job.ID, facts.Clock(job.End, time.Now())))
}

// handleNext records the current state of the next job. One that ended early follows nothing.
func (k *keeper) handleNext(next api.Job) {
	s := k.session
	sub := s.agent.store.Session(s.name).Submissions.Of(next)
	switch {
	case next.State == api.JobUnknown || sub.Role != state.RoleNext:
	case next.State.Ended():
		s.dropSubmission(sub, next)
		if job := s.agent.store.Session(s.name).Current().Job; job != nil {
			s.leaveUnfollowed(*job)
		}
		s.notify(api.NoticeTimeLimit, fmt.Sprintf("the next job of %s ended early: %s", s.name, facts.EndText(&next, time.Now())))
	default:
		s.showSubmission(sub, next)
	}
}

// isFollowed reports whether a job is submitted to follow a job, or none is to be.
func (s *session) isFollowed(job api.Job) bool {
	s.mu.Lock()
	unfollowed, cancelled := s.unfollowed, s.cancelledJob == job.ID
	s.mu.Unlock()
	rec := s.agent.store.Session(s.name)
	next := rec.Next()
	return cancelled || unfollowed == nextTag(job, rec.Asked) || next.Live() && (next.Job != nil || next.Doubt)
}

// leaveUnfollowed has no job submitted to follow a job, unless it is extended.
func (s *session) leaveUnfollowed(job api.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfollowed = nextTag(job, s.agent.store.Session(s.name).Asked)
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
	rec := s.agent.store.Session(s.name)
	if rec.Assisted {
		return api.Job{}, s.skipNext(job, fmt.Errorf("an assistant started it; `tunctl up %s` starts the next one", s.name))
	}
	sub, err := s.permitNext(job, rec)
	if errors.Is(err, errKeepLimit) {
		return api.Job{}, s.skipNext(job, fmt.Errorf("%w; start the session yourself when you need it", err))
	}
	if err != nil {
		return api.Job{}, err
	}
	plan := s.agent.source(cfg).Unchecked(sub.With)
	order, err := plan.Order(ctx, jobs, sub.Tag)
	if err != nil {
		_ = s.record(func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) }, nil)
		return api.Job{}, s.skipNext(job, err)
	}
	next, err := plan.Submit(ctx, jobs, order)
	if err != nil {
		s.recordLost(sub, err)
	}
	switch e, ok := asAPI(err); {
	case isUncertain(err): // it follows if it appears
		return api.Job{}, s.skipNext(job, fmt.Errorf("%w; it is used if it appears", err))
	case ok && e.Code == api.CodeSubmit:
		return api.Job{}, s.skipNext(job, err)
	case err != nil: // a lost connection: the next attempt uses the same tag
		s.agent.log.Warn("cannot submit the next job", "session", s.name, "err", err)
		return api.Job{}, err
	}
	s.recordSubmission(sub, func(x *state.Submission) { x.Job = &next }, func(f *facts.Facts) { f.Next = &next })
	return next, nil
}

// errKeepLimit says that the limit of a day is reached.
var errKeepLimit = errors.New("keep = true has reached its limit of jobs per day")

// nextTag is the tag of the job that follows job. It depends on that job alone, so that
// another agent, as on another laptop, gets the same tag and finds the one next job.
// Clusters with a common home may use the same job IDs, and a reinstalled cluster starts
// again at 1: the time of submission, which is the same for everybody, tells them apart. Its time
// limit, in seconds, is another after an extension, which may have cancelled the next job.
func nextTag(job api.Job, limit int64) string {
	number, _, _ := strings.Cut(job.ID, ".") // PBS may add the name of its server
	return fmt.Sprintf("after-%s-%d-%d", notInTags.ReplaceAllString(number, "-"), job.Submitted.Unix(), (cmp.Or(timeLimit(job), limit)+30)/60)
}

var notInTags = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// permitNext records the submission of the job that follows job, and counts it. One that was
// interrupted is continued.
func (s *session) permitNext(job api.Job, rec state.Session) (state.Submission, error) {
	current, sub := rec.Current(), rec.Next()
	if sub.Tag != "" && sub.Job == nil && !sub.Cancel {
		s.recordSubmission(sub, func(x *state.Submission) { x.When = time.Time{} }, nil)
		return sub, nil // counted already
	}
	now := time.Now()
	today := slices.DeleteFunc(slices.Clone(rec.Kept), func(t time.Time) bool { return now.Sub(t) > keepWindow })
	if len(today) >= s.agent.limits.KeepPerDay {
		return sub, errKeepLimit
	}
	sub = state.Submission{Tag: nextTag(job, rec.Asked), Role: state.RoleNext, Host: current.Host, Account: current.Account, With: current.With}
	today = append(today, now)
	if err := s.record(func(r *state.Session) { r.Submissions, r.Kept = r.Submissions.Put(sub), today }, nil); err != nil {
		return sub, fmt.Errorf("the next job was not submitted: %w", err)
	}
	return sub, nil
}

// skipNext gives up the job that would follow this one, and says why.
func (s *session) skipNext(job api.Job, why error) error {
	s.leaveUnfollowed(job)
	s.notify(api.NoticeTimeLimit, fmt.Sprintf("no job follows job %s: %v", job.ID, why))
	return why
}

// successor is the job that takes over from one that is over: the one that the keeper has
// submitted or, if it could not before the end, one submitted now. None follows a job that was
// cancelled.
func (s *session) successor(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, bool) {
	if ctx.Err() != nil || !job.State.Ended() {
		return api.Job{}, false
	}
	s.mu.Lock()
	cancelled := job.State == api.JobCancelled || s.cancelledJob == job.ID
	s.mu.Unlock()
	if cancelled {
		s.cancelNext(fmt.Sprintf("job %s was cancelled", job.ID))
		return api.Job{}, false
	}
	for job.State == api.JobTimeout && s.config().Keep && !s.isFollowed(job) {
		s.change(func(f *facts.Facts) {
			f.Submitting, f.Doing = true, fmt.Sprintf("job %s reached its time limit; submitting the next one", job.ID)
		})
		if _, err := s.submitNext(ctx, jobs, job); err != nil && ctxtime.Sleep(ctx, s.agent.limits.KeepRetry) != nil {
			return api.Job{}, false
		}
	}
	if next := s.agent.store.Session(s.name).Next(); next.InDoubt() {
		_ = s.settleSubmission(ctx, next) // it may have appeared
	}
	next := s.agent.store.Session(s.name).Next()
	if next.Job == nil || next.Cancel || next.Job.State.Ended() {
		return api.Job{}, false
	}
	s.promoteNext(next)
	s.notify(api.NoticeTimeLimit, fmt.Sprintf("job %s has ended: job %s takes over", job.ID, next.Job.ID))
	return *next.Job, true
}

// cancelNext has the next job cancelled, if any, and says why. If it has not appeared yet, it is
// cancelled then. It returns what was done, in words.
func (s *session) cancelNext(why string) string {
	next := s.agent.store.Session(s.name).Next()
	if !next.Live() || next.Cancel {
		return ""
	}
	_ = s.record(func(r *state.Session) {
		r.Submissions = r.Submissions.Change(next, func(x *state.Submission) { x.Cancel, x.Role = true, state.RoleOther })
	}, func(f *facts.Facts) { f.Next = nil })
	signal(s.agent.unsettled)
	what := "the job that was to follow is cancelled if it appears"
	if next.Job != nil {
		what = fmt.Sprintf("job %s, which was to follow, is cancelled", next.Job.ID)
	}
	s.notify("", why+": "+what)
	return what
}
