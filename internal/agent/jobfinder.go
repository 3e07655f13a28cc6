package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// jobFinder finds the job of a session on an account of its host, and submits one if a person
// permits that.
type jobFinder struct {
	session *session
	host    *tunnel.Host
	jobs    *jobwatch.Watcher
	account string
}

// obtain finds or submits the session's job, and retries after a lost connection or
// when the scheduler does not respond: a submission is found again by its tag.
func (f *jobFinder) obtain(ctx context.Context) (job api.Job, err error) {
	s := f.session
	err = s.agent.hosts.RetryUntilUp(ctx, f.host, func() error {
		job, err = f.find(ctx)
		return err
	}, func(why error) {
		switch {
		case errors.Is(why, api.ErrBusy):
			s.show("waiting until your own shell or copy ends: the host allows no more commands at a time")
		case hosts.IsNoAnswer(why):
			s.show("the scheduler does not respond; trying again")
		}
	})
	return job, err
}

// find adopts the session's job if it exists on the account, and else submits it if a
// person permitted that.
func (f *jobFinder) find(ctx context.Context) (api.Job, error) {
	s, jobs, account := f.session, f.jobs, f.account
	s.show("asking the scheduler about the job")
	if err := s.agent.sessions.recoverJobs(ctx, s.host()); err != nil {
		return api.Job{}, err
	}
	began := time.Now()
	rec := s.saved()
	var unlisted, missed state.Submission
	last := rec.Current()
	for _, sub := range byRole(rec.Submissions) {
		job, found, err := jobs.Find(ctx, f.query(sub))
		found = found && sub.Matches(job, account)
		switch {
		case err != nil:
			return api.Job{}, err
		case found && usable(job):
			return job, s.submissions.adopt(job, sub, account, cmp.Or(job.Seen, began))
		case sub.Job == nil || sub.Elsewhere(account): // it may still appear
		case !found && sub.Role == state.RoleJob && recentlySubmitted(*sub.Job):
			unlisted = sub
		case !found && !s.submissions.confirmGone(sub, began):
			missed = sub
		case !found:
			s.submissions.drop(sub, facts.Gone(*sub.Job))
		case job.State.Ended():
			s.submissions.drop(sub, job)
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
		return job, s.submissions.adopt(job, sub, account, cmp.Or(job.Seen, began))
	}
	if unlisted.Job != nil { // the watch will see it, and nothing is submitted
		return *unlisted.Job, s.submissions.adopt(*unlisted.Job, unlisted, account, time.Time{})
	}
	if missed.Job != nil {
		s.show("the scheduler does not know job %s; asking again, since one answer may be wrong", missed.Job.ID)
		if err := ctxtime.Sleep(ctx, s.agent.limits.Jobs.LookApart()); err != nil {
			return api.Job{}, err
		}
		return f.find(ctx)
	}
	if !s.permitted() {
		return api.Job{}, f.noJobError(last)
	}
	if job, err = f.submittedElsewhere(ctx); err != nil {
		return api.Job{}, err
	}
	if job.ID != "" {
		return job, s.submissions.adopt(job, state.Submission{}, account, began)
	}
	if text := jobOnOtherAccount(rec.Current(), s.host(), account); text != "" {
		s.notify("", fmt.Sprintf("job %s may still be running: %s", rec.Current().Job.ID, text))
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
func (f *jobFinder) query(sub state.Submission) jobwatch.Query {
	args := f.session.config().Args
	if sub.Job == nil || sub.Tag != "" && sub.Elsewhere(f.account) {
		return jobwatch.Query{Tag: sub.Tag, Args: args}
	}
	return jobwatch.Query{ID: sub.Job.Ref(), Args: args}
}

func usable(job api.Job) bool { return !job.State.Ended() && job.State != api.JobCompleting }

// byName finds a job of the session's name, and the submission that made it, if tunctl's. The
// job is zero if there is none.
func (f *jobFinder) byName(ctx context.Context) (api.Job, state.Submission, error) {
	s := f.session
	cfg := s.config()
	if cfg.Job == "" || s.byJob() {
		return api.Job{}, state.Submission{}, nil
	}
	name := cfg.Job
	if s.origin == second {
		name = s.agent.source(cfg).JobName(name)
	}
	rec := s.saved() // before the query, during which a job that is to be cancelled may be cancelled and forgotten
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
func (f *jobFinder) submittedElsewhere(ctx context.Context) (api.Job, error) {
	s := f.session
	runs, err := s.agent.history.Runs()
	if err != nil {
		s.agent.log.Debug("cannot read the history", "err", err)
	}
	rec := s.saved()
	list, err := f.jobs.Submitted(ctx, s.name, func(x jobwatch.Submitted) bool {
		ours := func(sub state.Submission) bool {
			return sub.Tag == x.Tag || sub.Job != nil && sub.Job.Ref() == x.Job.ID
		}
		ended := func(r api.Run) bool { return r.Host == s.host() && r.Job.Ref() == x.Job.ID }
		return x.Session == s.name && x.Computer != submit.Computer() && x.Job.ID != "" && !slices.ContainsFunc(rec.Submissions, ours) && !slices.ContainsFunc(runs, ended)
	})
	for _, x := range list {
		if !usable(x.Job) {
			continue
		}
		base := cmp.Or(s.of, s.name)
		s.notify("", fmt.Sprintf("job %s of %s was started from %s; opening it. `tunctl up %s --as %s` starts a second one",
			x.Job.ID, s.name, otherComputer(x.Computer), base, s.agent.sessions.freeName(base)))
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

// recentlySubmitted reports whether a job was submitted so recently that the scheduler
// may not list it yet. One that runs nowhere was seen running by its log only. The time of submission
// may be by the host's clock, and be in the future.
func recentlySubmitted(job api.Job) bool {
	unlisted := job.State.Waiting() || job.State == api.JobRunning && job.Node == ""
	return unlisted && !job.Submitted.IsZero() && time.Since(job.Submitted) < jobwatch.Grace && time.Since(job.Seen).Abs() < jobwatch.Grace
}

// startedByHandHint is why no job follows an attached one.
const startedByHandHint = "the job was not started by tunctl, so tunctl does not start it again"

// noJobError says that the session has no job, and that no person permits a submission.
func (f *jobFinder) noJobError(was state.Submission) error {
	s, cfg := f.session, f.session.config()
	elsewhere := jobOnOtherAccount(was, cfg.Host, f.account)
	var e *api.Error
	switch {
	case elsewhere != "":
		e = api.Errorf(api.CodeJobEnded, "%s", elsewhere).WithHint("`tunctl up %s` starts a new one", s.name)
	case s.byJob():
		e = api.Errorf(api.CodeJobEnded, "the job of %s no longer exists", s.name).WithHint("%s", startedByHandHint)
	case was.InDoubt():
		e = api.Errorf(api.CodeJobEnded, "the result of the last submission of %s is not known, and no job of it is on %s yet",
			s.name, cfg.Host).
			WithHint("`tunctl jobs %s` shows whether it appears; `tunctl up %s` uses it, or starts one", cfg.Host, s.name)
	case was.Job != nil:
		e = api.Errorf(api.CodeJobEnded, "job %s no longer exists", was.Job.ID).
			WithHint("`tunctl up %s` starts a new one", s.name)
		if was.Job.State.Ended() {
			e.Message = facts.EndText(was.Job, time.Now())
		}
	case cfg.Submit == "":
		e = noSuchJobError(cfg, api.CodeJobEnded)
	default:
		e = api.Errorf(api.CodeJobEnded, "session %s has no job, and nobody waits for one to be submitted", s.name).
			WithHint("`tunctl up %s` starts one", s.name)
	}
	if cfg.Submit == "" && !s.byJob() { // it could not be submitted anyway
		e.Hint = noSuchJobError(cfg, e.Code).Hint
	}
	return e
}

// noSuchJobError is the error of a session that only looks for its job.
func noSuchJobError(cfg configs.Session, code api.Code) *api.Error {
	return api.Errorf(code, "no job called %q is queued or running on %s", cfg.Job, cfg.Host).
		WithHint(`start the job there, or set submit = "~/script.sh" in [session.%s]`, cfg.Name)
}

// submit submits the job once. The tag is saved before the submission: if the connection
// or the agent breaks in between, the next attempt with the same tag finds the job instead
// of submitting another.
func (f *jobFinder) submit(ctx context.Context) (api.Job, error) {
	s, jobs, account := f.session, f.jobs, f.account
	cfg := s.config()
	if cfg.Submit == "" {
		return api.Job{}, noSuchJobError(cfg, api.CodeFailed)
	}
	was := s.submissions.current()
	interrupted := was
	if was.Job != nil || was.Doubt || was.Cancel || was.Elsewhere(account) {
		interrupted = state.Submission{}
	}
	plan, sub, err := f.begin(s.agent.source(cfg), interrupted)
	if err != nil {
		return api.Job{}, err
	}
	order, err := plan.Order(ctx, jobs, sub.Tag)
	if err == nil && !s.permitted() { // it may have ended meanwhile
		err = f.noJobError(was)
	}
	if known := s.known(); err == nil && !known.Permit.ByPerson(time.Now()) { // but an assistant only
		err = f.chargeAssistant(ctx, plan, order)
	}
	if err != nil {
		continues := sub.Tag == interrupted.Tag
		s.submissions.unmade(sub, continues)
		if !continues {
			f.notBegun(plan)
		}
		return api.Job{}, err
	}
	order.Awaited = true
	began := time.Now()
	job, err := plan.Submit(ctx, jobs, order)
	if err = refuseUnreached(err); err != nil {
		s.submissions.lost(sub, err)
		return api.Job{}, err
	}
	err = s.submissions.adopt(job, sub, account, time.Now())
	s.change(func(f *facts.Facts) { // its job may have ended already, and is not submitted again
		if !f.Permit.GivenAfter(began) {
			f.EndPermit()
		}
	})
	return job, err
}

// notBegun gives the next attempt the choices of a submission that was not made.
func (f *jobFinder) notBegun(plan submit.Plan) {
	f.session.change(func(x *facts.Facts) {
		x.Submitting = false
		if x.Asked.With == nil {
			x.Asked = plan
		}
	})
}

// begin records the submission that begins now, and returns it with its plan. From then on, no
// other choices are accepted. An interrupted one is finished as it was begun: its job may exist.
func (f *jobFinder) begin(source *submit.Source, interrupted state.Submission) (submit.Plan, state.Submission, error) {
	s := f.session
	present := s.presentIn(interrupted)
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.facts.Asked
	plan := asked
	s.facts.Asked = submit.Plan{}
	if interrupted.Tag != "" {
		if !present.have(plan.With) {
			return plan, interrupted, present.others("an earlier submission of "+s.name+" was interrupted, and its job may still appear",
				fmt.Sprintf("`tunctl up %s` finishes it as it was begun", s.name), plan.With)
		}
		plan = source.Unchecked(interrupted.With)
	}
	sub := state.Submission{Tag: cmp.Or(interrupted.Tag, s.name+"-"+strings.ToLower(rand.Text()[:10])), Role: state.RoleJob, Host: s.cfg.Host, Account: f.account, With: plan.With}
	s.facts.Submitting, s.facts.Doing = true, facts.Doing{Text: "submitting " + source.Session.Submit}
	err := s.agent.store.Begin(s.name, func(r *state.Session) { r.Submissions, r.Assisted = r.Submissions.Put(sub), false })
	if s.recordedLocked(err) != nil {
		s.facts.Asked, s.facts.Submitting = asked, false
		err = fmt.Errorf("nothing was submitted: %w", err)
	}
	return plan.For(source), sub, err
}
