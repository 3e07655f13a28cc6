package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
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
			l.Drop(sub, facts.Gone(*sub.Job))
		}
		return nil
	case job.State.Ended():
		l.Drop(sub, job)
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
