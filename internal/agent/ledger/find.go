package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// finder finds the job of a session on an account of its host, and submits one if the user
// permits that.
type finder struct {
	*Ledger
	jobs    *jobwatch.Watcher
	account string
}

// Obtain finds or submits the session's job on an account of its host, and retries after a lost
// connection or when the scheduler does not respond: a submission is found again by its tag.
func (l *Ledger) Obtain(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, account string) (job api.Job, err error) {
	f := &finder{l, jobs, account}
	err = l.Hosts.RetryUntilUp(ctx, host, func() error {
		job, err = f.find(ctx)
		return err
	}, func(why error) {
		switch {
		case errors.Is(why, api.ErrBusy):
			l.show("waiting until your own shell or copy ends: the host allows no more commands at a time")
		case hosts.IsNoAnswer(why):
			l.show("the scheduler does not respond; trying again")
		}
	})
	return job, err
}

// find adopts the session's job if it exists on the account, and else submits it if a
// user permitted that.
func (f *finder) find(ctx context.Context) (api.Job, error) {
	jobs, account := f.jobs, f.account
	f.show("asking the scheduler about the job")
	if err := f.Recover(ctx, f.host()); err != nil {
		return api.Job{}, err
	}
	began := time.Now()
	rec := f.saved()
	var unlisted, missed state.Submission
	last := rec.Current()
	for _, sub := range byRole(rec.Submissions) {
		job, found, err := jobs.Find(ctx, f.query(sub))
		found = found && sub.Matches(job, account)
		switch {
		case err != nil:
			return api.Job{}, err
		case found && usable(job):
			return job, f.adopt(job, sub, account, cmp.Or(job.Seen, began))
		case sub.Job == nil || sub.Elsewhere(account): // it may still appear
		case !found && sub.Role == state.RoleJob && recentlySubmitted(*sub.Job):
			unlisted = sub
		case !found && !f.confirmGone(sub, began):
			missed = sub
		case !found:
			f.Drop(sub, facts.Gone(*sub.Job))
		case job.State.Ended():
			f.Drop(sub, job)
			if sub.Role == state.RoleJob {
				last.Job = &job
			}
		}
	}
	job, sub, err := f.byName(ctx)
	switch {
	case err != nil:
		return api.Job{}, err
	case job.ID != "":
		return job, f.adopt(job, sub, account, cmp.Or(job.Seen, began))
	}
	if unlisted.Job != nil { // the watch will see it, and nothing is submitted
		return *unlisted.Job, f.adopt(*unlisted.Job, unlisted, account, time.Time{})
	}
	if missed.Job != nil {
		f.show("the scheduler does not know job %s; asking again, since one answer may be wrong", missed.Job.ID)
		if err := ctxtime.Sleep(ctx, f.Limits.Jobs.LookApart()); err != nil {
			return api.Job{}, err
		}
		return f.find(ctx)
	}
	if !f.permitted() {
		return api.Job{}, f.noJobError(last)
	}
	if job, err = f.submittedElsewhere(ctx); err != nil {
		return api.Job{}, err
	}
	if job.ID != "" {
		return job, f.adopt(job, state.Submission{}, account, began)
	}
	if text := onOtherAccount(rec.Current(), f.host(), account); text != "" {
		f.notify("job %s may still be running: %s", rec.Current().Job.ID, text)
	}
	return f.submit(ctx)
}

// byRole are the submissions whose job may be used, the session's first.
func byRole(l state.Submissions) state.Submissions {
	l = slices.DeleteFunc(slices.Clone(l), func(s state.Submission) bool { return s.Cancel })
	order := []state.Role{state.RoleJob, state.RoleNext, state.RoleOther}
	slices.SortStableFunc(l, func(a, b state.Submission) int {
		return cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role))
	})
	return l
}

// query finds the job of a submission. On another account, its ID may be another job's.
func (f *finder) query(sub state.Submission) jobwatch.Query {
	args := f.owner.Config().Args
	if sub.Job == nil || sub.Tag != "" && sub.Elsewhere(f.account) {
		return jobwatch.Query{Tag: sub.Tag, Args: args}
	}
	return jobwatch.Query{ID: sub.Job.Ref(), Args: args}
}

func usable(job api.Job) bool { return !job.State.Ended() && job.State != api.JobCompleting }

// byName finds a job of the session's name, and the submission that made it, if tunctl's. The
// job is zero if there is none.
func (f *finder) byName(ctx context.Context) (api.Job, state.Submission, error) {
	cfg := f.owner.Config()
	if cfg.Job == "" || f.OneJob {
		return api.Job{}, state.Submission{}, nil
	}
	name := cfg.Job
	if f.Of != "" {
		name = f.Source(cfg).JobName(name)
	}
	rec := f.saved() // before the query, during which a job that is to be cancelled may be cancelled and forgotten
	job, found, err := f.jobs.Find(ctx, jobwatch.Query{Name: name, Args: cfg.Args})
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		return api.Job{}, state.Submission{}, api.Errorf(api.CodeFailed, "%w", several).
			WithHint("`tunctl attach %s %s` opens the newest; or cancel the others with `tunctl cancel %s JOB`, then run this again",
				cfg.Host, several.Jobs[0].Ref(), cfg.Host)
	}
	if err != nil || !found || !usable(job) {
		return api.Job{}, state.Submission{}, err
	}
	sub := rec.Submissions.Of(job)
	if current := rec.Current(); sub.Job == nil && sub.Tag == "" && current.Job == nil && state.TagOf(job) == "" { // the scheduler may not tell the script
		sub = current
	}
	if sub.Cancel {
		return api.Job{}, state.Submission{}, nil
	}
	return job, sub, nil
}

// submittedElsewhere finds a job of the session that another computer of the user has submitted, so that
// none is submitted beside it. The job is zero if there is none.
func (f *finder) submittedElsewhere(ctx context.Context) (api.Job, error) {
	runs, err := f.History.Runs()
	if err != nil {
		f.Log.Debug("cannot read the history", "err", err)
	}
	rec := f.saved()
	list, err := f.jobs.Submitted(ctx, f.Name, func(x jobwatch.Submitted) bool {
		ours := func(sub state.Submission) bool {
			return sub.Tag == x.Tag || sub.Job != nil && sub.Job.Ref() == x.Job.ID
		}
		ended := func(r api.Run) bool { return r.Host == f.host() && r.Job.Ref() == x.Job.ID }
		return x.Session == f.Name && x.Computer != submit.Computer() && x.Job.ID != "" && !slices.ContainsFunc(rec.Submissions, ours) && !slices.ContainsFunc(runs, ended)
	})
	for _, x := range list {
		if !usable(x.Job) {
			continue
		}
		base := f.Base()
		f.notify("job %s of %s was started from %s; opening it. `tunctl up %s --as %s` starts a second one",
			x.Job.ID, f.Name, otherComputer(x.Computer), base, f.FreeName(base))
		return x.Job, nil
	}
	return api.Job{}, err
}

// otherComputer names the computer of a submission that is not in this one's record.
func otherComputer(name string) string {
	if name == "" {
		return "another computer"
	}
	return fmt.Sprintf("another computer (%s)", api.Sanitize(name))
}

// noJobError says that the session has no job, and that no user permits a submission.
func (f *finder) noJobError(was state.Submission) error {
	cfg := f.owner.Config()
	elsewhere := onOtherAccount(was, cfg.Host, f.account)
	var e *api.Error
	switch {
	case elsewhere != "":
		e = api.Errorf(api.CodeJobEnded, "%s", elsewhere).WithHint("`tunctl up %s` starts a new one", f.Name)
	case f.OneJob:
		e = api.Errorf(api.CodeJobEnded, "the job of %s no longer exists", f.Name).WithHint("%s", facts.StartedByHand)
	case was.InDoubt():
		e = api.Errorf(api.CodeJobEnded, "the result of the last submission of %s is not known, and no job of it is on %s yet",
			f.Name, cfg.Host).
			WithHint("`tunctl jobs %s` shows whether it appears; `tunctl up %s` uses it, or starts one", cfg.Host, f.Name)
	case was.Job != nil:
		e = api.Errorf(api.CodeJobEnded, "job %s no longer exists", was.Job.ID).
			WithHint("`tunctl up %s` starts a new one", f.Name)
		if was.Job.State.Ended() {
			e.Message = facts.EndText(was.Job, time.Now())
		}
	case cfg.Submit == "":
		e = noSuchJobError(cfg, api.CodeJobEnded)
	default:
		e = api.Errorf(api.CodeJobEnded, "session %s has no job, and nobody waits for one to be submitted", f.Name).
			WithHint("`tunctl up %s` starts one", f.Name)
	}
	if cfg.Submit == "" && !f.OneJob { // it could not be submitted anyway
		e.Hint = noSuchJobError(cfg, e.Code).Hint
	}
	return e
}

// noSuchJobError is the error of a session that only looks for its job.
func noSuchJobError(cfg configs.Session, code api.Code) *api.Error {
	return api.Errorf(code, "no job called %q is queued or running on %s", cfg.Job, cfg.Host).
		WithHint(`start the job there, or set submit = "~/script.sh" in [session.%s]`, cfg.Name)
}
