package ledger

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
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/latest"
	"tunctl/jobwatch"
)

// keepWindow is the day of Limits.KeepPerDay.
const keepWindow = 24 * time.Hour

// KeepSlack is how much too early the next job may be: the end of a job may be reported
// differently by a few seconds.
const KeepSlack = 2 * time.Minute

// Keeper submits the next job of a session with keep = true, early enough to have left
// the queue when the running job ends, and watches it. Until then the forward stays with
// the running job: nothing that works is taken away.
type Keeper struct {
	*Ledger
	jobs    *jobwatch.Watcher
	updates chan api.Job
	retry   time.Time // not before then, after a failure
}

// NewKeeper returns the keeper for a job.
func (l *Ledger) NewKeeper(jobs *jobwatch.Watcher) *Keeper {
	return &Keeper{Ledger: l, jobs: jobs, updates: make(chan api.Job, 1)}
}

// Update says how the job is now. One goroutine does.
func (k *Keeper) Update(job api.Job) { latest.Offer(k.updates, job) }

// Serve submits and watches the next job until ctx ends.
func (k *Keeper) Serve(ctx context.Context) {
	var job api.Job
	var watch *jobwatch.Watch // on the next job; nil: there is none
	defer func() { closeWatch(watch) }()
	for {
		next := k.next().Job
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
		} else if !k.isFollowed(job) {
			due = ctxtime.WallTimer(k.due(job))
		}
		select {
		case job = <-k.updates:
			if k.isExtended(job) {
				k.CancelNext(fmt.Sprintf("job %s was extended", job.ID))
			}
		case next := <-updates:
			k.handleNext(k.AsRecorded(next.Job))
		case <-due:
			// The user may have cancelled it meanwhile.
			if due := k.due(job); !due.IsZero() && !due.After(time.Now()) && !k.isFollowed(job) {
				k.submitDue(ctx, job)
			}
		case <-ctx.Done():
			return
		}
	}
}

// due is when to submit the next job, by our clock: before the end by one and a half times as long
// as this job waited, but not in the first half of its run time. Zero means never.
func (k *Keeper) due(job api.Job) time.Time {
	if !k.owner.Config().Keep || job.State != api.JobRunning || job.End.IsZero() {
		return time.Time{}
	}
	at := KeepAt(job, k.Limits.KeepLead).Add(-k.jobs.Skew()) // the times of jobs are by the host's clock
	if at.Before(k.retry) {
		return k.retry
	}
	return at
}

// isExtended reports whether a job ends much later than when the next job was submitted. By its tag that is
// for another time limit: a job that only seems to end later, as after a clock was set, keeps its next
// one, whose tag would be used again.
func (k *Keeper) isExtended(job api.Job) bool {
	rec := k.saved()
	return k.due(job).After(time.Now().Add(KeepSlack)) && rec.Next().Tag != nextTag(job, rec.Asked)
}

// KeepAt is when that is, by the host's clock, for a job that has an end.
func KeepAt(job api.Job, lead time.Duration) time.Time {
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
func (k *Keeper) submitDue(ctx context.Context, job api.Job) {
	next, err := k.submit(ctx, job)
	if err != nil {
		k.retry = time.Now().Add(k.Limits.KeepRetry)
		return
	}
	k.remind("the next job of %s is queued: job %s follows job %s, which ends at %s", k.Name, next.ID, job.ID, api.ClockText(job.End, time.Now()))
}

// handleNext records the current state of the next job. One that ended early follows nothing.
func (k *Keeper) handleNext(next api.Job) {
	sub := k.List().Of(next)
	switch {
	case next.State == api.JobUnknown || sub.Role != state.RoleNext:
	case next.State.Ended():
		k.Drop(sub, next)
		if job := k.Current().Job; job != nil {
			k.leaveUnfollowed(*job)
		}
		k.remind("the next job of %s ended early: %s", k.Name, facts.EndText(&next, time.Now()))
	default:
		k.Show(sub, next)
	}
}

func closeWatch(w *jobwatch.Watch) {
	if w != nil {
		w.Close()
	}
}

// submit submits the job that follows job: once, and no more per day than the limit
// allows. Its tag is saved first.
func (k *Keeper) submit(ctx context.Context, job api.Job) (api.Job, error) {
	rec := k.saved()
	if rec.Assisted {
		return api.Job{}, k.skip(job, fmt.Errorf("an assistant started it; `tunctl up %s` starts the next one", k.Name))
	}
	sub, err := k.permit(job, rec)
	if err != nil {
		return api.Job{}, err
	}
	plan := k.Source(k.owner.Config()).Unchecked(sub.With)
	order, err := plan.Order(ctx, k.jobs, sub.Tag)
	if err != nil {
		k.unmade(sub, sub.Tag == rec.Next().Tag)
		return api.Job{}, k.skip(job, err)
	}
	next, err := plan.Submit(ctx, k.jobs, order)
	if err != nil {
		k.Lost(sub, err)
	}
	switch {
	case isUncertain(err): // it follows if it appears
		return api.Job{}, k.skip(job, fmt.Errorf("%w; it is used if it appears", err))
	case api.HasCode(err, api.CodeSubmit):
		return api.Job{}, k.skip(job, err)
	case err != nil: // a lost connection: the next attempt uses the same tag
		k.Log.Warn("cannot submit the next job", "session", k.Name, "err", err)
		return api.Job{}, err
	}
	k.change(sub, func(x *state.Submission) { x.Job = &next })
	return next, nil
}

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
func (k *Keeper) permit(job api.Job, rec state.Session) (state.Submission, error) {
	current, sub := rec.Current(), rec.Next()
	now := time.Now()
	today := slices.DeleteFunc(slices.Clone(rec.Kept), func(t time.Time) bool { return now.Sub(t) > keepWindow })
	if sub.Tag == "" || sub.Job != nil || sub.Cancel { // else it is counted already
		if len(today) >= k.Limits.KeepPerDay {
			return sub, k.skip(job, errors.New("keep = true has reached its limit of jobs per day; start the session yourself when you need it"))
		}
		sub = state.Submission{Tag: nextTag(job, rec.Asked), Role: state.RoleNext, Host: current.Host, Account: current.Account, With: current.With}
		today = append(today, now)
	} else {
		sub.When = now // its job may still appear
	}
	if err := k.record(func(r *state.Session) { r.Submissions, r.Kept = r.Submissions.Put(sub), today }); err != nil {
		return sub, fmt.Errorf("the next job was not submitted: %w", err)
	}
	return sub, nil
}

// skip gives up the job that would follow this one, and says why.
func (k *Keeper) skip(job api.Job, why error) error {
	k.leaveUnfollowed(job)
	k.remind("no job follows job %s: %v", job.ID, why)
	return why
}

// remind tells the user something about the time limit of a job.
func (l *Ledger) remind(format string, args ...any) {
	l.owner.Notify(api.NoticeTimeLimit, fmt.Sprintf(format, args...))
}

// isFollowed reports whether a job is submitted to follow a job, or none is to be: also if the job is
// no longer the session's, since it was cancelled.
func (l *Ledger) isFollowed(job api.Job) bool {
	rec := l.saved()
	current, next := rec.Current(), rec.Next()
	if current.Job == nil || current.Job.Ref() != job.Ref() || current.Cancel {
		return true
	}
	return rec.Unfollowed == nextTag(job, rec.Asked) || next.Live() && (next.Job != nil || next.Doubt)
}

// leaveUnfollowed has no job submitted to follow a job, unless it is extended.
func (l *Ledger) leaveUnfollowed(job api.Job) {
	_ = l.record(func(r *state.Session) { r.Unfollowed = nextTag(job, r.Asked) })
}

// Successor is the job that takes over from one that is over: the one that a keeper has
// submitted or, if it could not before the end, one submitted now. None follows a job that was
// cancelled.
func (l *Ledger) Successor(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, bool) {
	if ctx.Err() != nil || !job.State.Ended() {
		return api.Job{}, false
	}
	if known := l.owner.Facts(); job.State == api.JobCancelled || known.Cancelled() {
		l.CancelNext(fmt.Sprintf("job %s was cancelled", job.ID))
		return api.Job{}, false
	}
	for job.State == api.JobTimeout && l.owner.Config().Keep && !l.isFollowed(job) {
		l.owner.Change(func(f *facts.Facts) {
			f.Submitting, f.Doing = true, facts.Doing{Text: fmt.Sprintf("job %s reached its time limit; submitting the next one", job.ID)}
		})
		if _, err := l.NewKeeper(jobs).submit(ctx, job); err != nil && ctxtime.Sleep(ctx, l.Limits.KeepRetry) != nil {
			return api.Job{}, false
		}
	}
	if next := l.next(); next.InDoubt() {
		_ = l.Settle(ctx, next) // it may have appeared
	}
	next := l.next()
	if next.Job == nil || next.Cancel || next.Job.State.Ended() {
		return api.Job{}, false
	}
	l.promote(next)
	l.remind("job %s has ended: job %s takes over", job.ID, next.Job.ID)
	return *next.Job, true
}

// Extend asks the scheduler to give the session's job more time, and checks the result. It does
// not record it.
func (l *Ledger) Extend(ctx context.Context, by time.Duration) (api.Job, error) {
	job, err := l.extendable()
	if err != nil {
		return api.Job{}, err
	}
	jobs := l.Hosts.Watcher(l.host())
	ended := api.Errorf(api.CodeJobEnded, "job %s has ended", job.ID)
	before, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.Job{}, err
	case !found || l.AsRecorded(before).State.Ended(): // its number may be another job's by now
		return api.Job{}, ended
	}
	limit := job.End.Sub(job.Start) + by
	if err := jobs.Extend(ctx, job.Ref(), limit); err != nil {
		return api.Job{}, err
	}
	after, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.Job{}, err
	case !found || after.State.Ended():
		return api.Job{}, ended
	case !after.End.After(job.End):
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler accepted the request, but job %s still ends at %s",
			job.ID, api.ClockText(job.End, time.Now())).WithHint("the site may limit how far a job can be extended")
	}
	if l.NewKeeper(jobs).due(after).After(time.Now().Add(KeepSlack)) {
		l.leaveUnfollowed(job) // until the keeper knows of the extension
		after.Hint = l.CancelNext(fmt.Sprintf("job %s was extended", job.ID))
	}
	return after, nil
}

// extendable is the session's job, if it runs and its host is connected.
func (l *Ledger) extendable() (api.Job, error) {
	known := l.owner.Facts()
	job := known.Job()
	switch {
	case job == nil || job.State.Ended():
		return api.Job{}, api.Errorf(api.CodeNotReady, "session %q has no running job to extend", l.Name).
			WithHint("`tunctl up %s` starts one", l.Name)
	case job.State.Waiting():
		return api.Job{}, api.Errorf(api.CodeNotReady, "job %s is still queued", job.ID).
			WithHint("for a longer job, change the script, args or with of the session, then run `tunctl down %s --cancel` and `tunctl up %s`",
				l.Name, l.Name)
	case job.Start.IsZero() || job.End.IsZero():
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler reports no time limit for job %s", job.ID)
	case known.Host.State != api.HostUp:
		return api.Job{}, hosts.JobOutOfReach(l.host(), job.ID)
	}
	return *job, nil
}
