package agent

import (
	"context"
	"slices"

	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// observation is a job that is watched without queries.
type observation struct {
	jobs *jobwatch.Watcher
	ref  string
}

// observeAll has all jobs observed that no attempt follows.
func (a *Agent) observeAll() {
	for _, name := range a.store.Live() {
		if s, err := a.session(name); err == nil {
			s.observe()
		}
	}
}

// observe has the jobs that no attempt follows updated by the answers that their scheduler gives
// anyway, as to `tunctl jobs` or about another session's job. It causes no query.
func (s *session) observe() {
	for _, sub := range s.agent.store.Session(s.name).Submissions {
		if s.inProgress() || !hasLive(sub.Job) {
			continue
		}
		jobs, account, err := s.watcherOf(sub)
		if err != nil {
			continue // the next connection to the host tries again
		}
		of := observation{jobs, sub.Job.Ref()}
		s.mu.Lock()
		_, observed := s.observed[of]
		var watch *jobwatch.Watch
		if !observed {
			watch = jobs.Observe(of.ref)
			s.observed[of] = watch
		}
		s.mu.Unlock()
		if observed {
			continue
		}
		if sub.Job.State == api.JobRunning {
			watch.SeenRunning()
		}
		s.agent.work.Go(func() {
			s.observeJob(s.agent.ctx, watch, sub, account)
			watch.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.observed, of)
		})
	}
}

// observeJob records each answer about a job until it ends, or an attempt follows it.
func (s *session) observeJob(ctx context.Context, watch *jobwatch.Watch, sub state.Submission, account string) {
	for {
		select {
		case r := <-watch.C():
			if !s.recordAnswer(r, sub, account) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// recordAnswer records what the scheduler said about a job that no attempt follows, and reports
// whether it has more to say.
func (s *session) recordAnswer(r jobwatch.Report, sub state.Submission, account string) bool {
	s.acting.Lock()
	defer s.acting.Unlock()
	known := slices.ContainsFunc(s.agent.store.Session(s.name).Submissions, sub.Is)
	switch {
	case s.inProgress(), !known:
		return false
	case r.Asked.IsZero(), r.State == api.JobUnknown:
		return true // it is no answer
	case r.State.Ended(), !sub.Matches(r.Job, account):
		job := r.Job
		if !r.State.Ended() { // its number is another job's now
			job = asGone(*sub.Job)
		}
		s.dropSubmission(sub, job)
		s.agent.dropIfDownLocked(s)
		return false
	}
	s.showSubmission(sub, r.Job)
	return true
}
