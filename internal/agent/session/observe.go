package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch"
)

// Settle looks after the submissions that no attempt follows: whose result is not known, which a
// user wants ended, and those left behind by another. It connects to no host. A job that was
// cancelled ends within seconds, or takes long.
func (r *Registry) Settle(ctx context.Context) error {
	pause := r.Limits.Jobs.QueryMin
	for {
		var next <-chan time.Time
		if names := r.Store.Unsettled(); len(names) > 0 {
			next = time.After(pause)
			pause = min(2*pause, state.MissApart)
			var looks sync.WaitGroup
			for _, name := range names {
				looks.Go(func() { r.settleSession(ctx, name) })
			}
			looks.Wait()
			_ = ctxtime.Sleep(ctx, r.Limits.Jobs.QueryMin) // whatever wakes it
		}
		select {
		case <-next:
		case <-r.unsettled:
			pause = r.Limits.Jobs.QueryMin
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settleSession looks once after each submission of a session that no attempt follows.
func (r *Registry) settleSession(ctx context.Context, name string) {
	s, err := r.Find(name)
	if err != nil {
		return
	}
	for _, sub := range r.Store.Session(name).Submissions.Unsettled() {
		if sub.Role == state.RoleJob && !sub.Cancel && s.InProgress() {
			continue // the attempt finds it, and sees its end
		}
		if err := s.Jobs.Settle(ctx, sub); err != nil {
			r.Log.Debug("a submission is not settled yet", "session", name, "err", err)
		}
	}
	r.dropIfDown(s)
}

// ObserveAll has all jobs observed that no attempt follows.
func (r *Registry) ObserveAll() {
	for _, name := range r.Store.Live() {
		if s, err := r.Find(name); err == nil {
			s.observer.observe()
		}
	}
}

// observer has a session's jobs that no attempt follows updated by the answers that their scheduler gives
// anyway, as to `tunctl jobs` or about another session's job. It causes no query.
type observer struct {
	session *Session
	mu      sync.Mutex
	watches map[observation]*jobwatch.Watch
}

// observation is a job that is watched without queries.
type observation struct {
	jobs *jobwatch.Watcher
	ref  string
}

// observe has the jobs observed that are on record now, unless an attempt is in progress.
func (o *observer) observe() {
	s := o.session
	for _, sub := range s.Jobs.List() {
		if s.InProgress() || !facts.IsLive(sub.Job) {
			continue
		}
		jobs, account, err := s.Jobs.WatcherOf(sub)
		if err != nil || sub.Elsewhere(account) {
			continue // the next connection to the host tries again
		}
		of := observation{jobs, sub.Job.Ref()}
		watch := o.begin(of)
		if watch == nil {
			continue
		}
		if sub.Job.State == api.JobRunning {
			watch.SeenRunning(sub.Job.Node)
		}
		s.parts.Work.Go(func() {
			for more := true; more; {
				select {
				case r := <-watch.C():
					more = o.record(r, sub, account)
				case <-s.parts.Ctx.Done():
					more = false
				}
			}
			watch.Close()
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.watches, of)
		})
	}
}

// begin watches a job; nil if that is done already.
func (o *observer) begin(of observation) *jobwatch.Watch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watches[of] != nil {
		return nil
	}
	o.watches[of] = of.jobs.Observe(of.ref)
	return o.watches[of]
}

// sawEnd reports whether the scheduler has said that a job has ended, which is not recorded yet.
func (o *observer) sawEnd() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, watch := range o.watches {
		if watch.Job().State.Ended() {
			return true
		}
	}
	return false
}

// record records what the scheduler said about a job, and reports whether it has more to say.
func (o *observer) record(r jobwatch.Report, sub state.Submission, account string) bool {
	s := o.session
	s.acting.Lock()
	defer s.acting.Unlock()
	known := slices.ContainsFunc(s.Jobs.List(), sub.Is)
	switch {
	case s.InProgress(), !known, s.parts.Sessions.isReplaced(s):
		return false
	case r.Asked.IsZero(), r.State == api.JobUnknown:
		return true // it is no answer
	case r.State.Ended(), !sub.Matches(r.Job, account):
		job := r.Job
		if !r.State.Ended() { // its number is another job's now
			job = facts.Gone(*sub.Job)
		}
		s.Jobs.Drop(sub, job)
		s.parts.Sessions.dropIfDownLocked(s)
		return false
	}
	s.Jobs.Show(sub, r.Job)
	return true
}
