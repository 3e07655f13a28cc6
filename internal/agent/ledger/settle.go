package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// Settle asks the scheduler once what became of a submission, and ends its job if the
// user wants that. Without an error the scheduler has answered. It connects to no host.
func (l *Ledger) Settle(ctx context.Context, sub state.Submission) (err error) {
	defer func() {
		if sub.Cancel && sub.Role == state.RoleJob && ctx.Err() == nil {
			l.owner.Change(func(f *facts.Facts) { f.NotEnded = err })
		}
	}()
	jobs, account, err := l.WatcherOf(sub)
	if err != nil {
		return err
	}
	began, elsewhere := time.Now(), sub.Elsewhere(account)
	q := jobwatch.Query{Tag: sub.Tag, Args: l.owner.Config().Args}
	var job api.Job
	found := false
	if sub.Job == nil || elsewhere && sub.Tag != "" {
		job, found, err = jobs.FindTag(ctx, q)
		found = found && sub.Matches(job, sub.Account) // the tag is that account's, wherever it is found
	}
	if err == nil && !found && sub.Job != nil { // the accounting may not know the tag
		q.ID = sub.Job.Ref()
		job, found, err = jobs.Find(ctx, q)
		found = found && sub.Matches(job, account)
	}
	switch {
	case errors.Is(err, jobwatch.ErrIncomplete): // it may be one of the others
		return nil
	case err != nil:
		return err
	case !found && sub.Job == nil:
		return l.miss(sub, began, account)
	case !found && elsewhere: // its own scheduler was not asked
		return l.elsewhereError(sub, account)
	case !found:
		if l.confirmGone(sub, began) {
			l.Drop(sub, l.readEnd(ctx, sub, facts.Gone(*sub.Job)))
		}
		return nil
	case job.State.Ended():
		l.Drop(sub, l.readEnd(ctx, sub, job))
		return nil
	}
	if elsewhere { // the same cluster by another address
		l.change(sub, func(x *state.Submission) { x.Account = account })
	}
	if sub.Cancel && job.State != api.JobCompleting {
		return l.endJob(ctx, jobs, sub, job)
	}
	l.Show(sub, job)
	return nil
}

// readEnd returns the job of a submission, which ended or is gone while nobody followed it, with what its log
// says about that. What was to follow a job that nobody used is cancelled.
func (l *Ledger) readEnd(ctx context.Context, sub state.Submission, job api.Job) api.Job {
	job = l.AsRecorded(job)
	job = facts.WithLog(job, l.Hosts.LogEnd(ctx, sub.Host, job), l.owner.Config().EndIdle > 0)
	if sub.Role == state.RoleJob && job.Unused() {
		l.CancelNext(facts.EndText(&job, time.Now()))
	}
	return job
}

// Show records the job of a submission as it is now, and tells the user of one that has
// appeared.
func (l *Ledger) Show(sub state.Submission, job api.Job) {
	l.change(sub, func(x *state.Submission) { x.Job, x.Missed = &job, time.Time{} })
	switch {
	case sub.Job != nil:
	case sub.Role == state.RoleOther:
		l.notify("job %s appeared on %s: an earlier submission of %s made it; it is charged until you cancel it", job.ID, sub.Host, l.Name)
	case !l.owner.InProgress():
		l.notify("job %s appeared: an interrupted submission of %s made it; it is charged until you use or end it", job.ID, l.Name)
	}
}

// miss records that a query of an account which began at a time did not find a tag. The account of the
// tag may be out of reach for good, so that has an end too.
func (l *Ledger) miss(sub state.Submission, at time.Time, account string) error {
	err := l.record(func(r *state.Session) { r.Submissions = r.Submissions.Miss(sub, at) })
	if err != nil || !sub.Elsewhere(account) {
		return err
	}
	if slices.ContainsFunc(l.List(), sub.Is) {
		return l.elsewhereError(sub, account)
	}
	l.notify("tunctl stops looking for the job of an interrupted submission of %s: the address of %s was edited from %s to %s, where there is none; `tunctl jobs %s --all` lists your jobs",
		l.Name, sub.Host, sub.Account, account, sub.Host)
	return nil
}

// confirmGone records that a query which began at a time did not find a known job, and reports whether
// that is certain: one answer may be wrong, so an earlier one did not find it either.
func (l *Ledger) confirmGone(sub state.Submission, at time.Time) bool {
	if recentlySubmitted(*sub.Job) {
		return false
	}
	if sub.Missed.IsZero() || at.Before(sub.Missed) {
		l.change(sub, func(x *state.Submission) { x.Missed = at })
		return false
	}
	return at.Sub(sub.Missed) >= l.Limits.Jobs.LookApart()
}

// recentlySubmitted reports whether a job was submitted so recently that the scheduler
// may not list it yet. One that runs nowhere was seen running by its log only. The time of submission
// may be by the host's clock, and be in the future.
func recentlySubmitted(job api.Job) bool {
	unlisted := job.State.Waiting() || job.State == api.JobRunning && job.Node == ""
	return unlisted && !job.Submitted.IsZero() && time.Since(job.Submitted) < jobwatch.Grace && time.Since(job.Seen).Abs() < jobwatch.Grace
}

// errElsewhere is wrapped by the error for a submission of another account.
var errElsewhere = errors.New("submitted from another account")

// elsewhereError says that a submission was made from another account than the host has now, where
// nothing of it is found. A job is never cancelled by its ID there: it may be another's.
func (l *Ledger) elsewhereError(sub state.Submission, now string) error {
	if sub.Job == nil {
		return api.Errorf(api.CodeFailed, "the submission of %s was made as %s, and %s is now %s, where no job of it is found", l.Name, sub.Account, sub.Host, now).
			Because(errElsewhere).WithHint("look for its job as %s", sub.Account)
	}
	return api.Errorf(api.CodeFailed, "%s, where it is not found", onOtherAccount(sub, sub.Host, now)).Because(errElsewhere).
		WithHint("if that is the same cluster, `tunctl cancel %s %s` ends it; else end it as %s", sub.Host, sub.Job.ID, sub.Account)
}

// onOtherAccount says that a remembered job is on another account than the current one; "" if
// it is not.
func onOtherAccount(sub state.Submission, host, now string) string {
	if sub.Job == nil || !sub.Elsewhere(now) {
		return ""
	}
	return fmt.Sprintf("job %s was started as %s, and %s is now %s", sub.Job.ID, sub.Account, host, now)
}

// WatcherOf is the watcher of a submission's host, and the account that this is connected as now.
func (l *Ledger) WatcherOf(sub state.Submission) (*jobwatch.Watcher, string, error) {
	if l.Hosts.Pool.Host(sub.Host).Status().State != api.HostUp {
		if sub.Job == nil {
			return nil, "", hosts.NotConnected(sub.Host, ", so it is not known whether the interrupted submission became a job")
		}
		e := hosts.JobOutOfReach(sub.Host, sub.Job.ID)
		if sub.Cancel {
			e.Hint = fmt.Sprintf("tunctl ends it as soon as it reaches %s; `tunctl login %s` connects", sub.Host, sub.Host)
		}
		return nil, "", e
	}
	jobs, account := l.Hosts.WatcherOn(sub.Host)
	return jobs, account, nil
}

// MarkCancelled records that the user has cancelled a job of an account, if it is the session's: its end
// is then what they wanted, no job is submitted in its place, and what was to follow it is cancelled too.
func (l *Ledger) MarkCancelled(job api.Job, host, account string) {
	rec := l.saved()
	sub, current := rec.Submissions.Of(job), rec.Current().Job
	if l.host() != host || sub.Job == nil || !sub.Matches(job, account) { // another cluster has its own numbers
		return
	}
	ending := sub.Job.Cancelled()
	_ = l.owner.Record((*facts.Facts).EndPermit, func(r *state.Session) {
		r.Submissions = r.Submissions.Change(sub, func(x *state.Submission) { x.Cancel, x.Account, x.Job = true, account, &ending })
	})
	l.Unsettled() // who sees its end if nobody follows it
	switch {
	case sub.Role == state.RoleJob:
		l.CancelNext(fmt.Sprintf("you cancelled job %s", job.ID))
	case sub.Role == state.RoleNext && current != nil:
		l.leaveUnfollowed(*current)
	}
}

// CancelNext has the next job cancelled, if any, and says why. If it has not appeared yet, it is
// cancelled then. It returns what was done, in words.
func (l *Ledger) CancelNext(why string) string {
	next := l.next()
	if !next.Live() || next.Cancel {
		return ""
	}
	l.change(next, func(x *state.Submission) { x.Cancel, x.Role = true, state.RoleOther })
	l.Unsettled()
	what := "the job that was to follow is cancelled if it appears"
	if next.Job != nil {
		what = fmt.Sprintf("job %s, which was to follow, is cancelled", next.Job.ID)
	}
	l.notify("%s: %s", why, what)
	return what
}

// endJob cancels the job of a submission. It is forgotten once the scheduler says that it has
// ended, which may be now.
func (l *Ledger) endJob(ctx context.Context, jobs *jobwatch.Watcher, sub state.Submission, job api.Job) error {
	if err := jobs.Cancel(ctx, job.Ref()); err != nil {
		return err
	}
	if sub.Job == nil {
		l.notify("job %s appeared and was cancelled: an interrupted submission of %s made it, and you wanted its job to end", job.ID, l.Name)
	}
	job = job.Cancelled()
	sub.Job = &job
	l.mu.Lock()
	l.ended = append(l.ended, sub)
	l.mu.Unlock()
	l.Show(sub, job)
	if after, found, err := jobs.Detail(ctx, job.Ref()); err == nil && found && after.State.Ended() {
		after.State = api.JobCancelled
		l.Drop(sub, after)
	}
	return nil // one that is not found may be there: settle looks again
}

// BeginDown forgets what the last down has ended.
func (l *Ledger) BeginDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = nil
}

// End ends all jobs that the user wants ended, and waits for those that may still
// appear. What it cannot end, Settle ends later.
func (l *Ledger) End(ctx context.Context) error {
	defer l.Unsettled()
	for {
		wait := time.Duration(0)
		for _, sub := range l.List() {
			if !sub.Cancel || sub.Job != nil && sub.Job.State == api.JobCompleting {
				continue // its scheduler ends it
			}
			err := l.Hosts.Connect(ctx, sub.Host, localapi.Client(ctx)) // to end a job saves its cost
			if err == nil {
				err = l.Settle(ctx, sub)
			}
			if err != nil {
				return l.notEnded(sub, err)
			}
			wait = l.Limits.Jobs.QueryMin
			if time.Since(sub.When) > 2*time.Minute {
				wait = state.MissApart
			}
		}
		rest := l.List()
		i := slices.IndexFunc(rest, func(sub state.Submission) bool { // neither over nor being ended
			return sub.Cancel && sub.Live() && (sub.Job == nil || sub.Job.State != api.JobCompleting)
		})
		if i < 0 {
			return nil
		}
		if err := ctxtime.Sleep(ctx, wait); err != nil {
			return l.notEnded(rest[i], err)
		}
	}
}

// notEnded says which jobs were not ended yet, and how to look for them.
func (l *Ledger) notEnded(sub state.Submission, why error) error {
	rest, verb := l.WithEnded(l.owner.Status()).LiveText(), "was"
	if strings.Contains(rest, " and ") {
		verb = "were"
	}
	e := *api.AsError(why)
	e.Message = fmt.Sprintf("%s %s not ended yet: %s", rest, verb, e.Message)
	if errors.Is(why, errElsewhere) {
		return &e
	}
	e.Hint = fmt.Sprintf("tunctl ends this as soon as it reaches %s; `tunctl jobs %s` lists your jobs there", sub.Host, sub.Host)
	if e.Code == api.CodeNeedsPerson {
		e.Hint = fmt.Sprintf("`tunctl login %s` connects, and tunctl ends this then; `tunctl jobs %s` lists your jobs there", sub.Host, sub.Host)
	}
	return &e
}

// WithEnded is a session with the jobs that its down has ended.
func (l *Ledger) WithEnded(now api.Session) api.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sub := range l.ended {
		job := facts.EndedBy(*sub.Job, time.Now())
		job.State = api.JobCancelled
		if sub.Role == state.RoleJob {
			now.Job = &job
			continue
		}
		if sub.Role == state.RoleNext {
			now.Next = nil
		}
		now.Others = append(slices.DeleteFunc(slices.Clone(now.Others), func(j api.Job) bool { return j.Ref() == job.Ref() }), job)
	}
	return now
}
