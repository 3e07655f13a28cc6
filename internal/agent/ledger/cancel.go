package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// MarkCancelled records that the user has cancelled a job of an account, if it is the session's: its end
// is then what they wanted, no job is submitted in its place, and what was to follow it is cancelled too.
func (l *Ledger) MarkCancelled(job api.Job, host, account string) {
	rec := l.saved()
	sub, current := rec.Submissions.Of(job), rec.Current().Job
	if l.host() != host || sub.Job == nil || !sub.Matches(job, account) { // another cluster has its own numbers
		return
	}
	_ = l.owner.Record((*facts.Facts).EndPermit, func(r *state.Session) {
		r.Submissions = r.Submissions.Change(sub, func(x *state.Submission) { x.Cancel, x.Account = true, account })
	})
	l.Unsettled() // who sees its end if nobody follows it
	switch {
	case sub.Role == state.RoleJob:
		l.cancelNext(fmt.Sprintf("you cancelled job %s", job.ID))
	case sub.Role == state.RoleNext && current != nil:
		l.leaveUnfollowed(*current)
	}
}

// cancelNext has the next job cancelled, if any, and says why. If it has not appeared yet, it is
// cancelled then. It returns what was done, in words.
func (l *Ledger) cancelNext(why string) string {
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
	job.State, job.Hint = api.JobCompleting, "the job was cancelled and is about to end"
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
			h := l.Hosts.Pool.Host(sub.Host)
			var err error
			if h.Status().State != api.HostUp {
				h.UpFor(localapi.Client(ctx)) // to end a job saves its cost
				err = h.Await(ctx)
			}
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
