package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
)

// settle looks after the submissions that no attempt follows: whose result is not known, which a
// person wants ended, and those left behind by another. It connects to no host. A job that was
// cancelled ends within seconds, or takes long.
func (a *Agent) settle(ctx context.Context) error {
	pause := a.limits.Jobs.QueryMin
	for {
		var next <-chan time.Time
		if names := a.store.Unsettled(); len(names) > 0 {
			next = time.After(pause)
			pause = min(2*pause, state.MissApart)
			var looks sync.WaitGroup
			for _, name := range names {
				looks.Go(func() { a.settleSession(ctx, name) })
			}
			looks.Wait()
			_ = ctxtime.Sleep(ctx, a.limits.Jobs.QueryMin) // whatever wakes it
		}
		select {
		case <-next:
		case <-a.unsettled:
			pause = a.limits.Jobs.QueryMin
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Agent) settleSession(ctx context.Context, name string) {
	s, err := a.session(name)
	if err == nil {
		err = s.settleOnce(ctx)
		a.dropIfDown(s)
	}
	if err != nil {
		a.log.Debug("a submission is not settled yet", "session", name, "err", err)
	}
}

// settleOnce looks once after each submission that no attempt follows.
func (s *session) settleOnce(ctx context.Context) error {
	var errs []error
	for _, sub := range s.agent.store.Session(s.name).Submissions.Unsettled() {
		if sub.Role == state.RoleJob && !sub.Cancel && s.inProgress() {
			continue // the attempt finds it, and sees its end
		}
		errs = append(errs, s.settleSubmission(ctx, sub))
	}
	return errors.Join(errs...)
}

// settleSubmission asks the scheduler once what became of a submission, and ends its job if a
// person wants that. Without an error the scheduler has answered.
func (s *session) settleSubmission(ctx context.Context, sub state.Submission) error {
	jobs, account, err := s.watcherOf(sub)
	if err != nil {
		return err
	}
	began := time.Now()
	q := jobwatch.Query{Tag: sub.Tag, Args: s.config().Args}
	look := jobs.FindTag
	if sub.Job != nil {
		q.ID, look = sub.Job.Ref(), jobs.Find
	}
	job, found, err := look(ctx, q)
	found = found && sub.Matches(job, account)
	switch {
	case err != nil:
		return err
	case !found && sub.Job == nil:
		return s.record(func(r *state.Session) { r.Submissions = r.Submissions.Miss(sub, began) }, nil)
	case !found && recentlySubmitted(*sub.Job):
		return nil
	case !found:
		s.dropSubmission(sub, asGone(*sub.Job))
		return nil
	case job.State.Ended():
		s.dropSubmission(sub, job)
		return nil
	case sub.Cancel && job.State != api.JobCompleting:
		return s.endJob(ctx, jobs, sub, job)
	}
	s.showSubmission(sub, job)
	return nil
}

// watcherOf is the watcher of the account that a submission was made from. A job is never
// cancelled by its ID on another account than its own.
func (s *session) watcherOf(sub state.Submission) (*jobwatch.Watcher, string, error) {
	if s.agent.pool.Host(sub.Host).Status().State != api.HostUp {
		if sub.Job == nil {
			return nil, "", notConnected(sub.Host, ", so it is not known whether the interrupted submission became a job")
		}
		return nil, "", jobOutOfReach(sub.Host, sub.Job.ID, "cancelled")
	}
	jobs, account := s.agent.jobWatcherOn(sub.Host)
	if text := jobOnOtherAccount(sub, sub.Host, account); text != "" {
		return nil, "", api.Errorf(api.CodeFailed, "%s", text).WithHint("cancel the job as that account")
	}
	return jobs, account, nil
}

// endJob cancels the job of a submission. It is forgotten once the scheduler says that it has
// ended, which may be now.
func (s *session) endJob(ctx context.Context, jobs *jobwatch.Watcher, sub state.Submission, job api.Job) error {
	if err := jobs.Cancel(ctx, job.Ref()); err != nil {
		return err
	}
	if sub.Job == nil {
		s.notify("", fmt.Sprintf("job %s appeared and was cancelled: an interrupted submission of %s made it, and you wanted its job to end", job.ID, s.name))
	}
	job.State, job.Hint = api.JobCompleting, "the job was cancelled and is about to end"
	sub.Job = &job
	s.showSubmission(sub, job)
	if after, found, err := jobs.Detail(ctx, job.Ref()); err == nil && (!found || after.State.Ended()) {
		after.State = api.JobCancelled
		if !found {
			after = job
			after.State = api.JobCancelled
		}
		s.dropSubmission(sub, after)
	}
	return nil
}

// showSubmission records the job of a submission as it is now, and tells a person of one that has
// appeared.
func (s *session) showSubmission(sub state.Submission, job api.Job) {
	s.recordSubmission(sub, func(x *state.Submission) { x.Job = &job }, func(f *facts) {
		switch {
		case sub.Role == state.RoleNext:
			f.next = &job
		case sub.Role == state.RoleJob && s.attempt == nil:
			f.job = &job
		}
	})
	switch {
	case sub.Job != nil:
	case sub.Role == state.RoleOther:
		s.notify("", fmt.Sprintf("job %s appeared on %s: an earlier submission of %s made it; it is charged until you cancel it", job.ID, sub.Host, s.name))
	case !s.inProgress():
		s.notify("", fmt.Sprintf("job %s appeared: an interrupted submission of %s made it; it is charged until you use or end it", job.ID, s.name))
	}
}

// endSubmissions ends all jobs that a person wants ended, and waits for those that may still
// appear. What it cannot end, settle ends later.
func (s *session) endSubmissions(ctx context.Context) error {
	defer signal(s.agent.unsettled)
	for {
		wait := time.Duration(0)
		for _, sub := range s.agent.store.Session(s.name).Submissions {
			if !sub.Cancel || sub.Job != nil && sub.Job.State == api.JobCompleting {
				continue // its scheduler ends it
			}
			if err := s.connectTo(ctx, sub.Host); err != nil {
				return s.notEnded(sub, err)
			}
			if err := s.settleSubmission(ctx, sub); err != nil {
				return s.notEnded(sub, err)
			}
			wait = s.agent.limits.Jobs.QueryMin
			if time.Since(sub.When) > 2*time.Minute {
				wait = state.MissApart
			}
		}
		rest := s.agent.store.Session(s.name).Submissions
		if i := indexUnended(rest); i < 0 {
			return nil
		} else if err := ctxtime.Sleep(ctx, wait); err != nil {
			return s.notEnded(rest[i], err)
		}
	}
}

// indexUnended is the index of the first submission that is neither over nor being ended.
func indexUnended(l state.Submissions) int {
	for i, sub := range l {
		if sub.Cancel && sub.Live() && (sub.Job == nil || sub.Job.State != api.JobCompleting) {
			return i
		}
	}
	return -1
}

// connectTo connects to the host of a job that a person wants ended: that saves its cost.
func (s *session) connectTo(ctx context.Context, host string) error {
	h := s.agent.pool.Host(host)
	if h.Status().State == api.HostUp {
		return nil
	}
	h.UpFor(clientOf(ctx))
	return h.Await(ctx)
}

// notEnded says that a job was not ended yet, and how to look for it.
func (s *session) notEnded(sub state.Submission, why error) error {
	what := "it is not known whether the submission of " + s.name + " became a job"
	if sub.Job != nil {
		what = fmt.Sprintf("job %s was not ended yet", sub.Job.ID)
	}
	e := *asError(why)
	e.Message = fmt.Sprintf("%s: %s", what, e.Message)
	e.Hint = fmt.Sprintf("tunctl ends it as soon as it can while it is connected to %s; `tunctl jobs %s` lists your jobs there", sub.Host, sub.Host)
	if e.Code == api.CodeNeedsPerson {
		e.Hint = fmt.Sprintf("`tunctl login %s` connects; tunctl ends it then", sub.Host)
	}
	return &e
}
