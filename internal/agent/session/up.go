package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/run"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
	"tunctl/tunnel"
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
	if !r.waits(req.Waiter) {
		return api.UpResponse{}, api.Errorf(api.CodeUsage, "no watcher with that name: open /v1/watch?waiter=NAME first, or leave waiter out")
	}
	if s.origin != attached && s.origin != adhoc && !s.InProgress() {
		section := r.Section(s.Name)
		if len(req.With) > 0 || req.Again { // its plan is checked with these
			section = ""
		}
		if err := r.Settings.Valid(section); err != nil {
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
	if !r.waits(req.Waiter) { // it has left meanwhile
		s.Revoke(req.Waiter)
	}
	r.Resume()
	return res, err
}

// bringUp has all steps from the user's "up" to a page. It returns when the job ends,
// the session fails, or ctx is done.
func (r *attempt) bringUp(ctx context.Context) error {
	if err := r.listen(ctx); err != nil {
		return err
	}
	r.keepPorts()
	if !r.HasJob() { // forwards to fixed addresses work as soon as the host is connected
		r.Change(func(f *facts.Facts) { f.Answers = true })
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if !r.HasJob() {
		<-ctx.Done() // its forwards follow the host's state
		return ctx.Err()
	}
	jobs, account := r.parts.Hosts.WatcherOn(r.Host())
	job, err := r.Jobs.Obtain(ctx, r.host, jobs, account)
	if err != nil {
		return err
	}
	for {
		last, err := r.follow(ctx, jobs, job)
		next, kept := r.Jobs.Successor(ctx, jobs, last)
		if last.State.Ended() {
			r.Jobs.Drop(r.Jobs.List().Of(last), last)
		}
		if !kept {
			return err
		}
		job = next
	}
}

// follow stays with one job, through all its runs, to its end.
func (r *attempt) follow(ctx context.Context, jobs *jobwatch.Watcher, job api.Job) (api.Job, error) {
	watch := jobs.Watch(job.Ref())
	defer watch.Close()
	if job.State == api.JobRunning {
		watch.SeenRunning(job.Node)
	}
	r.mu.Lock()
	r.watch = watch
	r.mu.Unlock()
	var previous *run.Run
	for {
		next := run.New(r.Jobs, followed{r.Session}, r.host, jobs, r.jobUpdates, r.parts.Limits.Run, previous)
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
	for {
		changed := r.host.Changed()
		err := r.host.Await(ctx)
		if ctx.Err() != nil { // the state of the host means nothing once the agent stops
			return ctx.Err()
		}
		r.Change(func(f *facts.Facts) { f.Host = r.host.Status() })
		if err == nil {
			return nil
		}
		e, known := errors.AsType[*api.Error](err)
		if !known || r.isByPerson() && e.Code != api.CodeNeedsPerson {
			return r.parts.Hosts.WithSiteHint(ctx, r.Host(), err)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters = append(r.waiters, waiter)
	return func() {
		r.mu.Lock()
		i := slices.Index(r.waiters, waiter)
		r.waiters = slices.Delete(r.waiters, i, i+1)
		r.mu.Unlock()
		if r.waits(waiter) {
			return
		}
		for _, s := range r.Live() {
			s.Revoke(waiter)
		}
	}
}

// waits reports whether a command waits. The empty name always counts as waiting, and an
// assistant: what its up permits does not end with its request.
func (r *Registry) waits(waiter string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return waiter == "" || waiter == submit.Assistant || slices.Contains(r.waiters, waiter)
}

// RecentChoices are those of a session's earlier runs. A second session shares them with the
// one of the config.
func (s *Session) RecentChoices() []api.Choices {
	return s.parts.Store.Session(cmp.Or(s.Of, s.Name)).Recent
}

// Source is what a session's job is made from.
func (a *Parts) Source(cfg configs.Session) *submit.Source {
	return &submit.Source{
		Session: cfg, Section: a.Sessions.Section(cfg.Name), Host: a.Settings.Config().Host(cfg.Host), Sites: a.Settings.Sites(),
		Scheduler: a.Hosts.KnownScheduler(cfg.Host), Found: a.Hosts.Found(cfg.Host), Folder: filepath.Dir(a.Settings.Config().Path), Log: a.Log,
	}
}

// requestedPlan is the plan of a request with choices, checked as far as the site is known; zero if
// it has none.
func (r *Registry) requestedPlan(s *Session, req api.UpRequest) (submit.Plan, error) {
	if len(req.With) == 0 && !req.Again {
		return submit.Plan{}, nil
	}
	cfg := s.Config()
	if cfg.Submit == "" {
		return submit.Plan{}, api.Errorf(api.CodeUsage, "nothing can be chosen for session %s: tunctl submits no job for it", s.Name).
			WithHint(`set submit = "~/script.sh" in [session.%s]`, r.Section(s.Name))
	}
	with := api.Choices{}
	if req.Again {
		recent := s.RecentChoices()
		if len(recent) == 0 {
			return submit.Plan{}, api.Errorf(api.CodeUsage, "session %s has no earlier choices to repeat", s.Name).
				WithHint("`tunctl up %s --with NAME=VALUE` makes some", s.Name)
		}
		maps.Copy(with, recent[0])
	}
	maps.Copy(with, req.With)
	return r.Source(cfg).Plan(with)
}

// attempt is one attempt to bring a session up and keep it up.
type attempt struct {
	*Session
	host   *tunnel.Host
	cancel context.CancelFunc
	done   chan struct{}

	// Guarded by the session's mu:
	who    requester // the user may ask for what the agent has started
	client string    // through which the user last asked
}

// launchLocked begins an attempt.
func (r *attempt) launchLocked() {
	ctx, cancel := context.WithCancel(r.parts.Ctx)
	r.cancel, r.attempt = cancel, r
	r.enterLocked()
	r.parts.Work.Go(func() { r.Meter.Serve(ctx) })
	r.parts.Work.Go(func() {
		defer r.dropFailed() // after done, which a stop waits for
		defer close(r.done)
		defer cancel()
		r.finish(r.stayUp(ctx))
		r.observer.observe()
	})
}

// finish records why an attempt ended. The listener stays, and shows it.
func (r *attempt) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempt != r {
		return // taken down meanwhile
	}
	r.attempt = nil
	if r.parts.Ctx.Err() != nil {
		return // the agent stops: the session is still wanted
	}
	failure := api.Error{Code: api.CodeJobEnded, Message: "the session ended"}
	if err != nil {
		failure = *api.AsError(err)
	}
	if (failure.Code == api.CodeJobEnded || r.facts.JobOver()) && r.facts.Permit.Live(time.Now()) {
		again := r.newAttemptLocked(r.host, byPerson, r.client) // the user asked just as the attempt ended, or for a job that was over
		again.expireLocked()
		again.launchLocked()
		return
	}
	if several, ok := errors.AsType[*jobwatch.AmbiguousError](err); ok {
		r.facts.Candidates = several.Jobs
	}
	r.facts.Answers, r.facts.Looking, r.facts.Permit = false, false, submit.Permit{}
	// The next agent shows it too, since it can submit no job either; a log's token is not saved.
	secrets := r.pages.secrets(r.facts.Endpoint)
	failure.Message, failure.Hint = api.Redact(failure.Message, secrets...), api.Redact(failure.Hint, secrets...)
	_ = r.recordLocked(func(r *state.Session) { r.Failure = &failure })
}

// isByPerson reports whether the user asked for it.
func (r *attempt) isByPerson() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.who == byPerson
}

// grantLocked records the user's permission. A job that was started by hand is never
// submitted again, and a session with only forwards has no job.
func (r *attempt) grantLocked(waiter string) {
	if r.origin.isJob() || !r.hasJobLocked() {
		return
	}
	r.facts.Permit.Grant(waiter, r.parts.Limits.Permit)
	r.expireLocked()
}

// expireLocked ends the permission of an attempt when its time is over.
func (r *attempt) expireLocked() {
	end := r.facts.Permit.End()
	r.parts.Work.Go(func() {
		for time.Now().Before(end) {
			select {
			case <-ctxtime.WallTimer(end):
			case <-r.done:
				return
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lapseLocked()
	})
}

// Revoke ends the permission of a command that no longer waits.
func (s *Session) Revoke(waiter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil && s.facts.Permit.Revoke(waiter) {
		s.attempt.lapseLocked()
	}
}

// lapseLocked ends the permission of an attempt once no command waits any more: from then
// on the agent only adopts an existing job.
func (r *attempt) lapseLocked() {
	if r.attempt != r || r.facts.Permit.IsZero() || r.facts.Permit.Live(time.Now()) {
		return // of an earlier attempt, used, or still valid
	}
	r.who, r.facts.Permit, r.facts.Asked = byAgent, submit.Permit{}, submit.Plan{}
	r.parts.Log.Info("nobody waits for the job any more: it will not be submitted", "session", r.Name)
	r.enterLocked()
}

// errAccountChanged says that the host is connected to another account than before.
var errAccountChanged = errors.New("the host is connected as another account")

// stayUp brings the session up, and looks for its job again when the host reconnects to
// another account: after an edit of the config that may be another cluster, or the same
// one by another address. What the user permitted was for the first account.
func (r *attempt) stayUp(ctx context.Context) error {
	for {
		err := r.bringUpOnAccount(ctx)
		if !errors.Is(err, errAccountChanged) || ctx.Err() != nil {
			return err
		}
		r.parts.Log.Info("the host is connected as another account; looking for the job there", "session", r.Name, "account", r.host.Account())
		r.mu.Lock()
		if r.attempt != nil {
			r.attempt.who, r.facts.Permit, r.facts.Asked = byAgent, submit.Permit{}, submit.Plan{}
			r.enterLocked()
		}
		r.mu.Unlock()
	}
}

// bringUpOnAccount is bringUp until the host is connected to another account than at
// first.
func (r *attempt) bringUpOnAccount(ctx context.Context) error {
	host := r.host
	if !r.HasJob() {
		return r.bringUp(ctx) // its forwards work with any account
	}
	there, leave := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	first := ""
	if hosts.IsUp(host) {
		first = host.Account()
	}
	watch.Go(func() { leave(awaitAccountChange(there, host, first)) })
	err := r.bringUp(there)
	leave(nil)
	watch.Wait()
	if errors.Is(context.Cause(there), errAccountChanged) || errors.Is(err, tunnel.ErrOtherAccount) {
		return errAccountChanged
	}
	return err
}

// awaitAccountChange returns errAccountChanged once the host is connected to another
// account than the first. If first is "", that is the next one.
func awaitAccountChange(ctx context.Context, host *tunnel.Host, first string) error {
	err := hosts.Await(ctx, host, func() bool {
		if !hosts.IsUp(host) {
			return false
		}
		first = cmp.Or(first, host.Account())
		return host.Account() != first
	})
	return cmp.Or(err, errAccountChanged)
}
