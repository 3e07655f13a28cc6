package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/localapi"
	"tunctl/jobwatch"
)

// RecoverJobs finds the jobs on a connected host again that are in no record, if the state file could
// not be read in full since that was last done. One that is asked for meanwhile waits for it: it would
// share the query, and not know what has ended since that began.
func (r *Registry) RecoverJobs(ctx context.Context, host string) error {
	known, _ := r.recoveries.LoadOrStore(host, ctxtime.NewMutex())
	turn := known.(ctxtime.Mutex)
	if err := turn.Lock(ctx); err != nil {
		return err
	}
	defer turn.Unlock()
	if !r.Store.Incomplete(host) || strings.Contains(host, ",") { // a node of a job is behind its host
		return nil
	}
	var recorded state.Submissions // before the query, during which one may end and be forgotten
	for _, name := range r.Store.Live() {
		recorded = append(recorded, r.Store.Session(name).Submissions...)
	}
	jobs, account := r.Hosts.WatcherOn(host)
	list, err := jobs.Submitted(ctx, "", nil)
	if err != nil {
		return err
	}
	for _, x := range list {
		if !slices.ContainsFunc(recorded, func(s state.Submission) bool { return s.Tag == x.Tag }) {
			r.recoverJob(x, host, account)
		}
	}
	r.Store.SetComplete(host)
	return nil
}

// recoverJob records a job that this computer, or an older tunctl on any, has submitted.
func (r *Registry) recoverJob(x jobwatch.Submitted, host, account string) {
	if !configs.ValidSessionName(x.Session) || x.Computer != "" && x.Computer != submit.Computer() {
		r.Log.Info("a job that belongs to no session of this computer", "job", x.Job.ID, "host", host, "session", x.Session, "computer", x.Computer)
		return
	}
	sub := state.Submission{Tag: x.Tag, Role: state.RoleOther, Job: &x.Job, Host: host, Account: account}
	added := false
	err := r.Store.Update(x.Session, func(rec *state.Session) {
		for _, known := range rec.Submissions {
			if known.Tag == x.Tag || known.Job != nil && known.Host == host && known.Job.Ref() == x.Job.Ref() {
				return
			}
		}
		if !rec.Current().Live() {
			sub.Role = state.RoleJob
		}
		rec.Submissions, added = rec.Submissions.Put(sub), true
	})
	if err != nil {
		r.Log.Error("cannot save the session", "session", x.Session, "err", err)
	}
	if !added {
		return
	}
	s, err := r.Find(x.Session)
	if err != nil {
		r.Log.Error("cannot list a session", "session", x.Session, "err", err)
		return
	}
	s.Jobs.Show(sub, x.Job)
	s.observer.observe()
	s.Notify("", fmt.Sprintf("job %s was found again on %s: it was missing in tunctl's state file", x.Job.ID, host))
}

// recoverToEnd finds a session's jobs again before they are ended, and connects for that: to end a
// job saves its cost.
func (r *Registry) recoverToEnd(ctx context.Context, s *Session) error {
	if !s.HasJob() || !r.Store.Incomplete(s.Host()) {
		return nil
	}
	err := r.Hosts.Connect(ctx, s.Host(), localapi.Client(ctx))
	if err == nil {
		err = r.RecoverJobs(ctx, s.Host())
	}
	if err != nil {
		e := *api.AsError(err)
		e.Message = fmt.Sprintf("the state file could not be read, so it is not known whether %s has a job: %s", s.Name, e.Message)
		e.Hint = fmt.Sprintf("`tunctl login %s` connects; then run this again", s.Host())
		return &e
	}
	return s.record(func(r *state.Session) { r.Submissions = r.Submissions.CancelAll(time.Now()) })
}

// PauseAfter pauses what is restored if the agent has crashed too often lately: nothing connects automatically
// until the user acts, since each start may cost a login and end in the next crash.
func (r *Registry) PauseAfter(crashes int) {
	if crashes >= r.Limits.Crashes {
		r.pause.Store(&api.Problem{
			Message: fmt.Sprintf("the agent crashed %d times within %s, so it does not connect automatically", crashes, api.DurationText(r.Limits.CrashWindow)),
			Since:   time.Now(),
		})
	}
}

// Paused is why nothing is restored; nil if it is.
func (r *Registry) Paused() *api.Problem { return r.pause.Load() }

// pausedError is why a session is not restored during a pause.
func pausedError(pause *api.Problem, session string) *api.Error {
	return api.Errorf(api.CodeFailed, "%s", pause.Message).
		WithHint("`tunctl up %s` connects all sessions again; `tunctl agent log` shows what happened before", session)
}

// Settle looks after the submissions that no attempt follows: whose result is not known, which a
// user wants ended, and those left behind by another. It connects to no host. A job that was
// cancelled ends within seconds, or takes long.
func (r *Registry) Settle(ctx context.Context) {
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
			return
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
