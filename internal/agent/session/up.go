package session

import (
	"context"
	"errors"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/run"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// Up brings a session up for the user. Unless it is only to adopt a job, it permits one
// submission, as long as the command that asked for it waits; without a waiter, as after a
// click, for a limited time.
func (r *Registry) Up(ctx context.Context, req api.UpRequest) (api.UpResponse, error) {
	s, err := r.Find(req.Session)
	if err == nil && req.As != "" && req.As != req.Session {
		s, err = r.Second(s, req.As)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	return r.UpSince(ctx, s, s.Downs(), req)
}

// UpSince is Up for a request that began when the session had been taken down so often.
func (r *Registry) UpSince(ctx context.Context, s *Session, downs int64, req api.UpRequest) (_ api.UpResponse, err error) {
	r.Hosts.UseEnv(req.Env)
	defer func() {
		if rec := r.Store.Session(s.Name); err != nil && s.origin == second && !s.InProgress() && !rec.Wanted && len(rec.Submissions) == 0 {
			r.Forget(s) // a second session that was never started
		}
	}()
	if !r.waiters.Has(req.Waiter) {
		return api.UpResponse{}, api.Errorf(api.CodeUsage, "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out")
	}
	if s.origin != attached && s.origin != adhoc && !s.InProgress() {
		if err := r.Settings.Valid(); err != nil {
			return api.UpResponse{}, err
		}
	}
	if err := r.removedError(s); err != nil {
		s.Change((*facts.Facts).EndPermit) // of an up before its section was removed
		return api.UpResponse{}, err
	}
	s.Reconfigure()
	if err := r.Hosts.Allowed(ctx, s.Host()); err != nil {
		return api.UpResponse{}, err
	}
	if _, err := fixedSpecs(ctx, s.parts.Hosts.Pool, s.Config()); err != nil {
		return api.UpResponse{}, err // before a login that would be useless
	}
	if err := s.Jobs.Choose(req.Job); err != nil {
		return api.UpResponse{}, err
	}
	plan, err := r.requestedPlan(s, req)
	if err == nil {
		err = s.Jobs.CheckPresent(plan.With)
	}
	if err != nil {
		return api.UpResponse{}, err
	}
	s.verify(ctx)
	res, err := s.start(request{client: localapi.Client(ctx), downs: downs, permits: !req.Adopt, waiter: req.Waiter, plan: plan})
	if !r.waiters.Has(req.Waiter) { // it has left meanwhile
		s.Revoke(req.Waiter)
	}
	r.Resume()
	return res, err
}

// bringUp has all steps from the user's "up" to a page. It returns when the job ends,
// the session fails, or ctx is done.
func (r *attempt) bringUp(ctx context.Context) error {
	s := r.session
	if err := r.listen(ctx); err != nil {
		return err
	}
	r.keepPorts()
	if !s.HasJob() { // forwards to fixed addresses work as soon as the host is connected
		s.Change(func(f *facts.Facts) { f.Answers = true })
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if !s.HasJob() {
		<-ctx.Done() // its forwards follow the host's state
		return ctx.Err()
	}
	jobs, account := s.parts.Hosts.WatcherOn(s.Host())
	job, err := s.Jobs.Obtain(ctx, r.host, jobs, account)
	if err != nil {
		return err
	}
	for {
		last, err := r.follow(ctx, jobs, job)
		next, kept := s.Jobs.Successor(ctx, jobs, last)
		if last.State.Ended() {
			s.Jobs.Drop(s.Jobs.List().Of(last), last)
		}
		if !kept {
			return err
		}
		job = next
	}
}

// follow stays with one job, through all its runs, to its end.
func (r *attempt) follow(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	s := r.session
	watch := jobs.Watch(job.Ref())
	defer watch.Close()
	if job.State == api.JobRunning {
		watch.SeenRunning(job.Node)
	}
	s.mu.Lock()
	s.watch = watch
	s.mu.Unlock()
	var previous *run.Run
	for {
		limits := s.parts.Limits
		next := run.New(s.Jobs, followed{s}, r.host, jobs, s.jobUpdates, run.Limits{Probe: limits.Probe, Silent: limits.Silent, Remind: limits.Remind}, previous)
		last, err := next.Serve(ctx, watch, job)
		if !errors.Is(err, run.ErrMoved) {
			return last, err
		}
		job, previous = last, next
	}
}

// connect waits until the host is connected, also while the user has to log in first. If
// the host cannot be reached, it fails for the user who asked, and else keeps trying.
func (r *attempt) connect(ctx context.Context) error {
	s, host := r.session, r.host
	for {
		changed := host.Changed()
		err := host.Await(ctx)
		if ctx.Err() != nil { // the state of the host means nothing once the agent stops
			return ctx.Err()
		}
		s.Change(func(f *facts.Facts) { f.Host = host.Status() })
		if err == nil {
			return nil
		}
		e, known := errors.AsType[*api.Error](err)
		if !known || r.isByPerson() && e.Code != api.CodeNeedsPerson {
			return s.parts.Hosts.WithSiteHint(ctx, s.Host(), err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wait says that a command waits, until the function that it returns is called: what the command permitted
// ends then.
func (r *Registry) Wait(waiter string) (left func()) {
	r.waiters.Enter(waiter)
	return func() {
		r.waiters.Exit(waiter)
		if r.waiters.Has(waiter) {
			return
		}
		for _, s := range r.Live() {
			s.Revoke(waiter)
		}
	}
}
