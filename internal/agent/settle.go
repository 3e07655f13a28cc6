package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// settle looks after the submissions that no attempt follows: whose result is not known, which a
// person wants ended, and those left behind by another. It connects to no host. A job that was
// cancelled ends within seconds, or takes long.
func (r *registry) settle(ctx context.Context) error {
	pause := r.limits.Jobs.QueryMin
	for {
		var next <-chan time.Time
		if names := r.store.Unsettled(); len(names) > 0 {
			next = time.After(pause)
			pause = min(2*pause, state.MissApart)
			var looks sync.WaitGroup
			for _, name := range names {
				looks.Go(func() { r.settleSession(ctx, name) })
			}
			looks.Wait()
			_ = ctxtime.Sleep(ctx, r.limits.Jobs.QueryMin) // whatever wakes it
		}
		select {
		case <-next:
		case <-r.unsettled:
			pause = r.limits.Jobs.QueryMin
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settleSession looks once after each submission of a session that no attempt follows.
func (r *registry) settleSession(ctx context.Context, name string) {
	s, err := r.find(name)
	if err != nil {
		return
	}
	for _, sub := range r.store.Session(name).Submissions.Unsettled() {
		if sub.Role == state.RoleJob && !sub.Cancel && s.inProgress() {
			continue // the attempt finds it, and sees its end
		}
		if err := s.submissions.settle(ctx, sub); err != nil {
			r.log.Debug("a submission is not settled yet", "session", name, "err", err)
		}
	}
	r.dropIfDown(s)
}

// settle asks the scheduler once what became of a submission, and ends its job if a
// person wants that. Without an error the scheduler has answered.
func (l *submissions) settle(ctx context.Context, sub state.Submission) (err error) {
	s := l.session
	defer func() {
		if sub.Cancel && sub.Role == state.RoleJob && ctx.Err() == nil {
			s.change(func(f *facts.Facts) { f.NotEnded = err })
		}
	}()
	jobs, account, err := l.watcherOf(sub)
	if err != nil {
		return err
	}
	began, elsewhere := time.Now(), sub.Elsewhere(account)
	q := jobwatch.Query{Tag: sub.Tag, Args: s.config().Args}
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
		return elsewhereError(sub, s.name, account)
	case !found:
		if l.confirmGone(sub, began) {
			l.drop(sub, facts.Gone(*sub.Job))
		}
		return nil
	case job.State.Ended():
		l.drop(sub, job)
		return nil
	}
	if elsewhere { // the same cluster by another address
		l.change(sub, func(x *state.Submission) { x.Account = account })
	}
	if sub.Cancel && job.State != api.JobCompleting {
		return l.endJob(ctx, jobs, sub, job)
	}
	l.show(sub, job)
	return nil
}

// miss records that a query of an account which began at a time did not find a tag. The account of the
// tag may be out of reach for good, so that has an end too.
func (l *submissions) miss(sub state.Submission, at time.Time, account string) error {
	s := l.session
	err := s.record(func(r *state.Session) { r.Submissions = r.Submissions.Miss(sub, at) })
	if err != nil || !sub.Elsewhere(account) {
		return err
	}
	if slices.ContainsFunc(l.list(), sub.Is) {
		return elsewhereError(sub, s.name, account)
	}
	s.notify("", fmt.Sprintf("tunctl stops looking for the job of an interrupted submission of %s: the address of %s was edited from %s to %s, where there is none; `tunctl jobs %s --all` lists your jobs",
		s.name, sub.Host, sub.Account, account, sub.Host))
	return nil
}

// confirmGone records that a query which began at a time did not find a known job, and reports whether
// that is certain: one answer may be wrong, so an earlier one did not find it either.
func (l *submissions) confirmGone(sub state.Submission, at time.Time) bool {
	if recentlySubmitted(*sub.Job) {
		return false
	}
	if sub.Missed.IsZero() || at.Before(sub.Missed) {
		l.change(sub, func(x *state.Submission) { x.Missed = at })
		return false
	}
	return at.Sub(sub.Missed) >= l.session.agent.limits.Jobs.LookApart()
}

// errElsewhere is wrapped by the error for a submission of another account.
var errElsewhere = errors.New("submitted from another account")

// elsewhereError says that a submission was made from another account than the host has now, where
// nothing of it is found. A job is never cancelled by its ID there: it may be another's.
func elsewhereError(sub state.Submission, session, now string) error {
	if sub.Job == nil {
		return api.Errorf(api.CodeFailed, "the submission of %s was made as %s, and %s is now %s, where no job of it is found", session, sub.Account, sub.Host, now).
			Because(errElsewhere).WithHint("look for its job as %s", sub.Account)
	}
	return api.Errorf(api.CodeFailed, "%s, where it is not found", jobOnOtherAccount(sub, sub.Host, now)).Because(errElsewhere).
		WithHint("if that is the same cluster, `tunctl cancel %s %s` ends it; else end it as %s", sub.Host, sub.Job.ID, sub.Account)
}

// watcherOf is the watcher of a submission's host, and the account that this is connected as now.
func (l *submissions) watcherOf(sub state.Submission) (*jobwatch.Watcher, string, error) {
	if l.session.agent.pool.Host(sub.Host).Status().State != api.HostUp {
		if sub.Job == nil {
			return nil, "", hosts.NotConnected(sub.Host, ", so it is not known whether the interrupted submission became a job")
		}
		e := hosts.JobOutOfReach(sub.Host, sub.Job.ID)
		if sub.Cancel {
			e.Hint = fmt.Sprintf("tunctl ends it as soon as it reaches %s; `tunctl login %s` connects", sub.Host, sub.Host)
		}
		return nil, "", e
	}
	jobs, account := l.session.agent.hosts.WatcherOn(sub.Host)
	return jobs, account, nil
}

// endJob cancels the job of a submission. It is forgotten once the scheduler says that it has
// ended, which may be now.
func (l *submissions) endJob(ctx context.Context, jobs *jobwatch.Watcher, sub state.Submission, job api.Job) error {
	s := l.session
	if err := jobs.Cancel(ctx, job.Ref()); err != nil {
		return err
	}
	if sub.Job == nil {
		s.notify("", fmt.Sprintf("job %s appeared and was cancelled: an interrupted submission of %s made it, and you wanted its job to end", job.ID, s.name))
	}
	job.State, job.Hint = api.JobCompleting, "the job was cancelled and is about to end"
	sub.Job = &job
	l.mu.Lock()
	l.ended = append(l.ended, sub)
	l.mu.Unlock()
	l.show(sub, job)
	if after, found, err := jobs.Detail(ctx, job.Ref()); err == nil && found && after.State.Ended() {
		after.State = api.JobCancelled
		l.drop(sub, after)
	}
	return nil // one that is not found may be there: settle looks again
}

// show records the job of a submission as it is now, and tells a person of one that has
// appeared.
func (l *submissions) show(sub state.Submission, job api.Job) {
	s := l.session
	l.change(sub, func(x *state.Submission) { x.Job, x.Missed = &job, time.Time{} })
	switch {
	case sub.Job != nil:
	case sub.Role == state.RoleOther:
		s.notify("", fmt.Sprintf("job %s appeared on %s: an earlier submission of %s made it; it is charged until you cancel it", job.ID, sub.Host, s.name))
	case !s.inProgress():
		s.notify("", fmt.Sprintf("job %s appeared: an interrupted submission of %s made it; it is charged until you use or end it", job.ID, s.name))
	}
}

// end ends all jobs that a person wants ended, and waits for those that may still
// appear. What it cannot end, settle ends later.
func (l *submissions) end(ctx context.Context) error {
	s := l.session
	defer signal(s.agent.unsettled)
	if err := s.recoverToEnd(ctx); err != nil {
		return err
	}
	for {
		wait := time.Duration(0)
		for _, sub := range l.list() {
			if !sub.Cancel || sub.Job != nil && sub.Job.State == api.JobCompleting {
				continue // its scheduler ends it
			}
			h := s.agent.pool.Host(sub.Host)
			var err error
			if h.Status().State != api.HostUp {
				h.UpFor(localapi.Client(ctx)) // to end a job saves its cost
				err = h.Await(ctx)
			}
			if err == nil {
				err = l.settle(ctx, sub)
			}
			if err != nil {
				return l.notEnded(sub, err)
			}
			wait = s.agent.limits.Jobs.QueryMin
			if time.Since(sub.When) > 2*time.Minute {
				wait = state.MissApart
			}
		}
		rest := l.list()
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
func (l *submissions) notEnded(sub state.Submission, why error) error {
	rest, verb := l.withEnded(l.session.status()).LiveText(), "was"
	if strings.Contains(rest, " and ") {
		verb = "were"
	}
	e := *asError(why)
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

// observation is a job that is watched without queries.
type observation struct {
	jobs *jobwatch.Watcher
	ref  string
}

// observeAll has all jobs observed that no attempt follows.
func (r *registry) observeAll() {
	for _, name := range r.store.Live() {
		if s, err := r.find(name); err == nil {
			s.submissions.observe()
		}
	}
}

// observe has the jobs that no attempt follows updated by the answers that their scheduler gives
// anyway, as to `tunctl jobs` or about another session's job. It causes no query.
func (l *submissions) observe() {
	s := l.session
	for _, sub := range l.list() {
		if s.inProgress() || !facts.IsLive(sub.Job) {
			continue
		}
		jobs, account, err := l.watcherOf(sub)
		if err != nil || sub.Elsewhere(account) {
			continue // the next connection to the host tries again
		}
		of := observation{jobs, sub.Job.Ref()}
		l.mu.Lock()
		_, observed := l.observed[of]
		var watch *jobwatch.Watch
		if !observed {
			watch = jobs.Observe(of.ref)
			l.observed[of] = watch
		}
		l.mu.Unlock()
		if observed {
			continue
		}
		if sub.Job.State == api.JobRunning {
			watch.SeenRunning(sub.Job.Node)
		}
		s.agent.work.Go(func() {
			for more := true; more; {
				select {
				case r := <-watch.C():
					more = l.recordAnswer(r, sub, account)
				case <-s.agent.ctx.Done():
					more = false
				}
			}
			watch.Close()
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.observed, of)
		})
	}
}

// endUnrecorded reports whether the scheduler has said that an observed job has ended, which is
// not recorded yet.
func (l *submissions) endUnrecorded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, watch := range l.observed {
		if watch.Job().State.Ended() {
			return true
		}
	}
	return false
}

// recordAnswer records what the scheduler said about a job that no attempt follows, and reports
// whether it has more to say.
func (l *submissions) recordAnswer(r jobwatch.Report, sub state.Submission, account string) bool {
	s := l.session
	s.acting.Lock()
	defer s.acting.Unlock()
	known := slices.ContainsFunc(l.list(), sub.Is)
	switch {
	case s.inProgress(), !known, s.agent.sessions.isReplaced(s):
		return false
	case r.Asked.IsZero(), r.State == api.JobUnknown:
		return true // it is no answer
	case r.State.Ended(), !sub.Matches(r.Job, account):
		job := r.Job
		if !r.State.Ended() { // its number is another job's now
			job = facts.Gone(*sub.Job)
		}
		l.drop(sub, job)
		s.agent.sessions.dropIfDownLocked(s)
		return false
	}
	l.show(sub, r.Job)
	return true
}
