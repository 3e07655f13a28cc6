package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/localapi"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// up brings a session up for a person. Unless it is only to adopt a job, it permits one
// submission, as long as the command that asked for it waits; without a waiter, as after a
// click, for a limited time.
func (a *server) up(ctx context.Context, req api.UpRequest) (_ api.UpResponse, err error) {
	a.hosts.UseEnv(req.Env)
	if !a.waiters.Has(req.Waiter) {
		return api.UpResponse{}, api.Errorf(api.CodeUsage, "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out")
	}
	s, err := a.sessions.find(req.Session)
	if err == nil && req.As != "" && req.As != req.Session {
		s, err = a.sessions.second(s, req.As)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	defer func() {
		if rec := a.store.Session(s.name); err != nil && s.origin == second && !s.inProgress() && !rec.Wanted && len(rec.Submissions) == 0 {
			a.sessions.forget(s) // a second session that was never started
		}
	}()
	if s.origin != attached && s.origin != adhoc && !s.inProgress() {
		if err := a.settings.Valid(); err != nil {
			return api.UpResponse{}, err
		}
	}
	if err := a.sessions.removedError(s); err != nil {
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
	a.sessions.resume()
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
	job, err := (&jobFinder{s, host, jobs, account}).obtain(ctx)
	if err != nil {
		return err
	}
	for {
		last, err := s.follow(ctx, host, jobs, job)
		next, kept := newKeeper(s, jobs).successor(ctx, last)
		if last.State.Ended() {
			s.submissions.drop(s.submissions.list().Of(last), last)
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
	s.submissions.recordRun(job)
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
