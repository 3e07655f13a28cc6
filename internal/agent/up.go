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
	"tunctl/internal/agent/localapi"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// up brings a session up for a person. Unless it is only to adopt a job, it permits one
// submission, as long as the command that asked for it waits; without a waiter, as after a
// click, for a limited time.
func (a *Agent) up(ctx context.Context, req api.UpRequest) (_ api.UpResponse, err error) {
	a.hosts.UseEnv(req.Env)
	if !a.waiters.Has(req.Waiter) {
		return api.UpResponse{}, api.Errorf(api.CodeUsage, "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out")
	}
	s, err := a.session(req.Session)
	if err == nil && req.As != "" && req.As != req.Session {
		s, err = a.second(s, req.As)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	defer func() {
		if rec := a.store.Session(s.name); err != nil && s.origin == second && !s.inProgress() && !rec.Wanted && len(rec.Submissions) == 0 {
			a.forget(s) // a second session that was never started
		}
	}()
	if s.origin != attached && s.origin != adhoc && !s.inProgress() {
		if err := a.settings.Valid(); err != nil {
			return api.UpResponse{}, err
		}
	}
	if err := a.removedError(s); err != nil {
		s.change(func(*facts.Facts) { s.endPermitLocked() }) // of an up before its section was removed
		return api.UpResponse{}, err
	}
	s.reconfigure()
	if err := a.hosts.Allowed(ctx, s.host()); err != nil {
		return api.UpResponse{}, err
	}
	if _, err := s.fixedSpecs(ctx); err != nil {
		return api.UpResponse{}, err // before a login that would be useless
	}
	if err := s.chooseJob(req.Job); err != nil {
		return api.UpResponse{}, err
	}
	plan, err := a.requestedPlan(s, req)
	if err == nil {
		err = s.checkPresent(plan.With)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	s.verify(ctx)
	now, at := s.start(byPerson, !req.Adopt, req.Waiter, localapi.Client(ctx), plan)
	if !a.waiters.Has(req.Waiter) { // it has left meanwhile
		s.revoke(req.Waiter)
	}
	a.resume()
	return api.UpResponse{Session: now, At: at}, nil
}

// bringUp has all steps from a person's "up" to a page. It returns when the job ends,
// the session fails, or ctx is done.
func (s *session) bringUp(ctx context.Context, host *tunnel.Host) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	s.keepPorts()
	if !s.hasJob() { // forwards to fixed addresses work as soon as the host is connected
		s.change(func(f *facts.Facts) { f.Answers = true })
	}
	if err := s.connect(ctx, host); err != nil {
		return err
	}
	if !s.hasJob() {
		<-ctx.Done() // its forwards follow the host's state
		return ctx.Err()
	}
	jobs, account := s.agent.hosts.WatcherOn(s.host())
	job, err := s.obtainJob(ctx, host, jobs, account)
	if err != nil {
		return err
	}
	for {
		last, err := s.follow(ctx, host, jobs, job)
		next, kept := s.successor(ctx, jobs, last)
		if last.State.Ended() {
			s.dropSubmission(s.agent.store.Session(s.name).Submissions.Of(last), last)
		}
		if !kept {
			return err
		}
		job = next
	}
}

// follow stays with one job, through all its runs, to its end.
func (s *session) follow(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	watch := jobs.Watch(job.Ref())
	defer watch.Close()
	if job.State == api.JobRunning && job.Node != "" {
		watch.SeenRunning()
	}
	s.mu.Lock()
	s.watch = watch
	s.mu.Unlock()
	var previous *jobRun
	for {
		run := newJobRun(s, host, jobs, previous)
		last, err := run.serve(ctx, watch, job)
		if !errors.Is(err, errMoved) {
			return last, err
		}
		job, previous = last, run
	}
}

// connect waits until the host is connected, also while a person has to log in first. If
// the host cannot be reached, it fails for a person who asked, and else keeps trying.
func (s *session) connect(ctx context.Context, host *tunnel.Host) error {
	for {
		changed := host.Changed()
		err := host.Await(ctx)
		if ctx.Err() != nil { // the state of the host means nothing once the agent stops
			return ctx.Err()
		}
		s.change(func(f *facts.Facts) { f.Host = host.Status() })
		if err == nil {
			return nil
		}
		e, known := asAPI(err)
		if !known || s.requestedBy() == byPerson && e.Code != api.CodeNeedsPerson {
			return s.agent.hosts.WithSiteHint(ctx, s.host(), err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// obtainJob finds or submits the session's job, and retries after a lost connection or
// when the scheduler does not respond: a submission is found again by its tag.
func (s *session) obtainJob(ctx context.Context, host *tunnel.Host, jobs *jobwatch.Watcher, account string) (job api.Job, err error) {
	err = s.agent.hosts.RetryUntilUp(ctx, host, func() error {
		job, err = s.findJob(ctx, jobs, account)
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

// findJob adopts the session's job if it exists on the account, and else submits it if a
// person permitted that.
func (s *session) findJob(ctx context.Context, jobs *jobwatch.Watcher, account string) (api.Job, error) {
	s.show("asking the scheduler about the job")
	began := time.Now()
	rec := s.agent.store.Session(s.name)
	var unlisted state.Submission
	last := rec.Current()
	for _, sub := range byRole(rec.Submissions) {
		job, found, err := jobs.Find(ctx, s.queryFor(sub, account))
		found = found && sub.Matches(job, account)
		switch {
		case err != nil:
			return api.Job{}, err
		case found && usable(job):
			return job, s.adopt(job, sub, account, began)
		case sub.Job == nil || sub.Elsewhere(account): // it may still appear
		case !found && sub.Role == state.RoleJob && recentlySubmitted(*sub.Job):
			unlisted = sub
		case !found:
			s.dropSubmission(sub, facts.Gone(*sub.Job))
		case job.State.Ended():
			s.dropSubmission(sub, job)
			if sub.Role == state.RoleJob {
				last.Job = &job
			}
		}
	}
	job, sub, err := s.findByName(ctx, jobs)
	switch {
	case err != nil:
		return api.Job{}, err
	case job.ID != "":
		return job, s.adopt(job, sub, account, began)
	}
	if unlisted.Job != nil { // the watch will see it, and nothing is submitted
		return *unlisted.Job, s.adopt(*unlisted.Job, unlisted, account, time.Time{})
	}
	if !s.permitted() {
		return api.Job{}, s.noJobError(last, account)
	}
	if text := jobOnOtherAccount(rec.Current(), s.host(), account); text != "" {
		s.notify("", fmt.Sprintf("job %s may still be running: %s", rec.Current().Job.ID, text))
	}
	return s.submit(ctx, jobs, account)
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

// queryFor finds the job of a submission. On another account, its ID may be another job's.
func (s *session) queryFor(sub state.Submission, account string) jobwatch.Query {
	args := s.config().Args
	if sub.Job == nil || sub.Tag != "" && sub.Elsewhere(account) {
		return jobwatch.Query{Tag: sub.Tag, Args: args}
	}
	return jobwatch.Query{ID: sub.Job.Ref(), Args: args}
}

func usable(job api.Job) bool { return !job.State.Ended() && job.State != api.JobCompleting }

// findByName finds a job of the session's name, and the submission that made it, if tunctl's. The
// job is zero if there is none.
func (s *session) findByName(ctx context.Context, jobs *jobwatch.Watcher) (api.Job, state.Submission, error) {
	cfg := s.config()
	if cfg.Job == "" || s.byJob() {
		return api.Job{}, state.Submission{}, nil
	}
	name := cfg.Job
	if s.origin == second {
		name = s.agent.source(cfg).JobName(name)
	}
	job, found, err := jobs.Find(ctx, jobwatch.Query{Name: name, Args: cfg.Args})
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		return api.Job{}, state.Submission{}, api.Errorf(api.CodeFailed, "%w", several).
			WithHint("`tunctl attach %s %s` opens the newest; or cancel the others with `tunctl cancel %s JOB`, then run this again",
				cfg.Host, several.Jobs[0].Ref(), cfg.Host)
	}
	if err != nil || !found || !usable(job) {
		return api.Job{}, state.Submission{}, err
	}
	rec := s.agent.store.Session(s.name)
	sub := rec.Submissions.Of(job)
	if current := rec.Current(); sub.Job == nil && sub.Tag == "" && current.Job == nil && state.TagOf(job) == "" { // the scheduler may not tell the script
		sub = current
	}
	if sub.Cancel {
		return api.Job{}, state.Submission{}, nil
	}
	return job, sub, nil
}

// recentlySubmitted reports whether a job was submitted so recently that the scheduler
// may not list it yet. One that runs nowhere was seen running by its log only.
func recentlySubmitted(job api.Job) bool {
	unlisted := job.State.Waiting() || job.State == api.JobRunning && job.Node == ""
	return unlisted && !job.Submitted.IsZero() && time.Since(job.Submitted) < jobwatch.Grace
}

// chooseJob makes one of several jobs of the session's name its job; "" is none.
func (s *session) chooseJob(ref string) error {
	if ref == "" {
		return nil
	}
	candidates := s.known().Candidates
	i := slices.IndexFunc(candidates, func(j api.Job) bool { return j.Ref() == ref })
	if i < 0 {
		return api.Errorf(api.CodeUsage, "job %s is not one of the jobs that session %s can use", ref, s.name).
			WithHint("`tunctl attach %s %s` opens any job", s.host(), ref)
	}
	chosen := state.Submission{Role: state.RoleJob, Job: &candidates[i], Host: s.host(), Account: s.agent.pool.Host(s.host()).Account()}
	return s.record(func(r *state.Session) { r.Submissions = r.Submissions.Put(chosen) }, nil)
}

// startedByHandHint is why no job follows an attached one.
const startedByHandHint = "the job was not started by tunctl, so tunctl does not start it again"

// noJobError says that the session has no job, and that no person permits a submission.
func (s *session) noJobError(was state.Submission, account string) error {
	cfg := s.config()
	elsewhere := jobOnOtherAccount(was, s.host(), account)
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
func (s *session) submit(ctx context.Context, jobs *jobwatch.Watcher, account string) (api.Job, error) {
	cfg := s.config()
	if cfg.Submit == "" {
		return api.Job{}, noSuchJobError(cfg, api.CodeFailed)
	}
	was := s.agent.store.Session(s.name).Current()
	interrupted := was
	if was.Job != nil || was.Doubt || was.Cancel || was.Elsewhere(account) {
		interrupted = state.Submission{}
	}
	plan, err := s.beginSubmission(s.agent.source(cfg), interrupted)
	if err != nil {
		return api.Job{}, err
	}
	sub := state.Submission{Tag: cmp.Or(interrupted.Tag, s.name+"-"+strings.ToLower(rand.Text()[:10])), Role: state.RoleJob, Host: cfg.Host, Account: account, With: plan.With}
	if err := s.record(func(r *state.Session) { r.Submissions, r.Assisted = r.Submissions.Put(sub), false }, nil); err != nil {
		return api.Job{}, fmt.Errorf("nothing was submitted: %w", err)
	}
	order, err := plan.Order(ctx, jobs, sub.Tag)
	if err == nil && !s.permitted() { // it may have ended meanwhile
		err = s.noJobError(was, account)
	}
	if err == nil && !s.permittedByPerson() {
		err = s.chargeAssistant(ctx, jobs, order)
	}
	if err != nil {
		if sub.Tag != interrupted.Tag { // nothing was submitted with it
			_ = s.record(func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) }, nil)
			s.change(func(f *facts.Facts) { // the next attempt has these choices
				f.Submitting = false
				if s.asked.With == nil {
					s.asked = plan
				}
			})
		} else {
			s.recordLost(sub, err)
		}
		return api.Job{}, err
	}
	order.Awaited = true
	began := time.Now()
	job, err := plan.Submit(ctx, jobs, order)
	if err != nil {
		s.recordLost(sub, err)
		return api.Job{}, err
	}
	err = s.adopt(job, sub, account, time.Now())
	s.change(func(*facts.Facts) { // its job may have ended already, and is not submitted again
		if s.attempt != nil && !s.attempt.permit.GivenAfter(began) {
			s.endPermitLocked()
		}
	})
	return job, err
}

// recordLost records that a submit command gave no job. One that was refused for certain is
// forgotten, and its tag not used again.
func (s *session) recordLost(sub state.Submission, err error) {
	if e, ok := asAPI(err); ok && e.Code == api.CodeSubmit {
		_ = s.record(func(r *state.Session) { r.Submissions = r.Submissions.Drop(sub) }, nil)
		if err := s.agent.store.DropAssistantJob(sub.Tag); err != nil {
			s.agent.log.Warn("a job that was refused still counts for assistants", "tag", sub.Tag, "err", err)
		}
		return
	}
	s.recordSubmission(sub, func(x *state.Submission) { x.When, x.Doubt = time.Now().Round(0), x.Doubt || isUncertain(err) }, nil)
	signal(s.agent.unsettled)
}

// isUncertain reports whether a person has to check that a job was submitted.
func isUncertain(err error) bool {
	_, doubt := errors.AsType[*jobwatch.DoubtError](err)
	return doubt
}

// finishJob adds a job that is over to the history, and says why it ended, with the end of its log
// if it never served.
func (s *session) finishJob(ctx context.Context, job api.Job) error {
	served, cfg := s.known().Served, s.config()
	excerpt, fix := "", ""
	ordinary := job.State == api.JobFinished || job.State == api.JobTimeout || job.State == api.JobCancelled
	if !served || !ordinary {
		var err error
		if excerpt, err = s.log().Tail(ctx, job); err != nil {
			s.agent.log.Debug("cannot read the end of the log", "session", s.name, "err", err)
		}
	}
	s.recordRun(job)
	if !served {
		fix = s.agent.source(cfg).Fix(ctx, s.agent.hosts.Watcher(cfg.Host), facts.EndText(&job, time.Now()), excerpt)
	}
	e := facts.EndedError(cfg, &job, served, excerpt, fix, time.Now())
	if s.byJob() {
		e.Hint = startedByHandHint
	}
	return e
}

func asAPI(err error) (*api.Error, bool) { return errors.AsType[*api.Error](err) }
