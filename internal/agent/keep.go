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
		next := k.session.submissions.next().Job
		switch {
		case next == nil:
			closeWatch(watch)
			watch = nil
		case watch == nil:
			watch = k.jobs.Watch(next.Ref())
		}
		var due <-chan time.Time
		var updates <-chan jobwatch.Report
		if watch != nil {
			updates = watch.C()
		} else if !k.session.submissions.isFollowed(job) {
			due = wallTimer(k.due(job))
		}
		select {
		case job = <-k.updates:
			if k.due(job).After(time.Now().Add(keepSlack)) {
				k.session.submissions.cancelNext(fmt.Sprintf("job %s was extended", job.ID))
			}
		case next := <-updates:
			k.handleNext(k.session.submissions.asRecorded(next.Job))
		case <-due:
			// A person may have cancelled it meanwhile.
			if due := k.due(job); !due.IsZero() && !due.After(time.Now()) && !k.session.submissions.isFollowed(job) {
				k.submitDue(ctx, job)
			}
		case <-ctx.Done():
			return
		}
	}
}

// due is when to submit the next job, by our clock: before the end by one and a half times as long
// as this job waited, but not in the first half of its run time. Zero means never.
func (k *keeper) due(job api.Job) time.Time {
	if !k.session.config().Keep || job.State != api.JobRunning || job.End.IsZero() {
		return time.Time{}
	}
	at := keepAt(job, k.session.agent.limits.KeepLead).Add(-k.jobs.Skew()) // the times of jobs are by the host's clock
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

// submitDue submits the next job. After a lost connection it retries
// with the same tag, which never makes a second job.
func (k *keeper) submitDue(ctx context.Context, job api.Job) {
	next, err := k.submit(ctx, job)
	if err != nil {
		k.retry = time.Now().Add(k.session.agent.limits.KeepRetry)
		return
	}
	k.session.notify(api.NoticeTimeLimit, fmt.Sprintf("the next job of %s is queued: job %s follows job %s, which ends at %s", k.session.name, next.ID, job.ID, api.ClockText(job.End, time.Now())))
}

// handleNext records the current state of the next job. One that ended early follows nothing.
func (k *keeper) handleNext(next api.Job) {
	s := k.session
	sub := s.submissions.list().Of(next)
	switch {
	case next.State == api.JobUnknown || sub.Role != state.RoleNext:
	case next.State.Ended():
		s.submissions.drop(sub, next)
		if job := s.submissions.current().Job; job != nil {
			s.submissions.leaveUnfollowed(*job)
		}
		s.notify(api.NoticeTimeLimit, fmt.Sprintf("the next job of %s ended early: %s", s.name, facts.EndText(&next, time.Now())))
	default:
		s.submissions.show(sub, next)
	}
}

func closeWatch(w *jobwatch.Watch) {
	if w != nil {
		w.Close()
	}
}

// submit submits the job that follows job: once, and no more per day than the limit
// allows. Its tag is saved first.
func (k *keeper) submit(ctx context.Context, job api.Job) (api.Job, error) {
	s, jobs := k.session, k.jobs
	rec := s.saved()
	if rec.Assisted {
		return api.Job{}, k.skip(job, fmt.Errorf("an assistant started it; `tunctl up %s` starts the next one", s.name))
	}
	sub, err := k.permit(job, rec)
	if errors.Is(err, errKeepLimit) {
		return api.Job{}, k.skip(job, fmt.Errorf("%w; start the session yourself when you need it", err))
	}
	if err != nil {
		return api.Job{}, err
	}
	plan := s.agent.source(s.config()).Unchecked(sub.With)
	order, err := plan.Order(ctx, jobs, sub.Tag)
	if err != nil {
		s.submissions.unmade(sub, sub.Tag == rec.Next().Tag)
		return api.Job{}, k.skip(job, err)
	}
	next, err := plan.Submit(ctx, jobs, order)
	if err != nil {
		s.submissions.lost(sub, err)
	}
	switch e, ok := asAPI(err); {
	case isUncertain(err): // it follows if it appears
		return api.Job{}, k.skip(job, fmt.Errorf("%w; it is used if it appears", err))
	case ok && e.Code == api.CodeSubmit:
		return api.Job{}, k.skip(job, err)
	case err != nil: // a lost connection: the next attempt uses the same tag
		s.agent.log.Warn("cannot submit the next job", "session", s.name, "err", err)
		return api.Job{}, err
	}
	s.submissions.change(sub, func(x *state.Submission) { x.Job = &next })
	return next, nil
}

// errKeepLimit says that the limit of a day is reached.
var errKeepLimit = errors.New("keep = true has reached its limit of jobs per day")

// nextTag is the tag of the job that follows job. It depends on that job alone, so that
// another agent, as on another laptop, gets the same tag and finds the one next job.
// Clusters with a common home may use the same job IDs, and a reinstalled cluster starts
// again at 1: the time of submission, which is the same for everybody, tells them apart. Its time
// limit, in seconds, is another after an extension, and its restarts after a requeue, each of which may
// have cancelled the next job.
func nextTag(job api.Job, limit int64) string {
	number, _, _ := strings.Cut(job.ID, ".") // PBS may add the name of its server
	tag := fmt.Sprintf("after-%s-%d-%d", notInTags.ReplaceAllString(number, "-"), job.Submitted.Unix(), (cmp.Or(timeLimit(job), limit)+30)/60)
	if job.Restarts > 0 {
		tag += fmt.Sprintf("-%d", job.Restarts)
	}
	return tag
}

var notInTags = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// permit records the submission of the job that follows job, and counts it. One that was
// interrupted is continued.
func (k *keeper) permit(job api.Job, rec state.Session) (state.Submission, error) {
	s := k.session
	current, sub := rec.Current(), rec.Next()
	now := time.Now()
	today := slices.DeleteFunc(slices.Clone(rec.Kept), func(t time.Time) bool { return now.Sub(t) > keepWindow })
	if sub.Tag == "" || sub.Job != nil || sub.Cancel { // else it is counted already
		if len(today) >= s.agent.limits.KeepPerDay {
			return sub, errKeepLimit
		}
		sub = state.Submission{Tag: nextTag(job, rec.Asked), Role: state.RoleNext, Host: current.Host, Account: current.Account, With: current.With}
		today = append(today, now)
	}
	sub.When = time.Time{}
	if err := s.record(func(r *state.Session) { r.Submissions, r.Kept = r.Submissions.Put(sub), today }); err != nil {
		return sub, fmt.Errorf("the next job was not submitted: %w", err)
	}
	return sub, nil
}

// skip gives up the job that would follow this one, and says why.
func (k *keeper) skip(job api.Job, why error) error {
	k.session.submissions.leaveUnfollowed(job)
	k.session.notify(api.NoticeTimeLimit, fmt.Sprintf("no job follows job %s: %v", job.ID, why))
	return why
}

// successor is the job that takes over from one that is over: the one that the keeper has
// submitted or, if it could not before the end, one submitted now. None follows a job that was
// cancelled.
func (k *keeper) successor(ctx context.Context, job api.Job) (api.Job, bool) {
	s := k.session
	if ctx.Err() != nil || !job.State.Ended() {
		return api.Job{}, false
	}
	if known := s.known(); job.State == api.JobCancelled || known.Cancelled() {
		s.submissions.cancelNext(fmt.Sprintf("job %s was cancelled", job.ID))
		return api.Job{}, false
	}
	for job.State == api.JobTimeout && s.config().Keep && !s.submissions.isFollowed(job) {
		s.change(func(f *facts.Facts) {
			f.Submitting, f.Doing = true, facts.Doing{Text: fmt.Sprintf("job %s reached its time limit; submitting the next one", job.ID)}
		})
		if _, err := k.submit(ctx, job); err != nil && ctxtime.Sleep(ctx, s.agent.limits.KeepRetry) != nil {
			return api.Job{}, false
		}
	}
	if next := s.submissions.next(); next.InDoubt() {
		_ = s.submissions.settle(ctx, next) // it may have appeared
	}
	next := s.submissions.next()
	if next.Job == nil || next.Cancel || next.Job.State.Ended() {
		return api.Job{}, false
	}
	s.submissions.promote(next)
	s.notify(api.NoticeTimeLimit, fmt.Sprintf("job %s has ended: job %s takes over", job.ID, next.Job.ID))
	return *next.Job, true
}
