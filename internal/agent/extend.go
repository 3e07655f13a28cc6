package agent

import (
	"context"
	"fmt"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/api"
)

// handleExtend asks the scheduler to give a session's job more time, and checks the result.
func (a *server) handleExtend(ctx context.Context, req api.ExtendRequest) (api.ExtendResponse, error) {
	if req.Seconds <= 0 {
		return api.ExtendResponse{}, api.Errorf(api.CodeUsage, "the extension must be greater than zero")
	}
	s, err := a.sessions.find(req.Session)
	if err != nil {
		return api.ExtendResponse{}, err
	}
	job, err := s.extendable()
	if err != nil {
		return api.ExtendResponse{}, err
	}
	jobs := a.hosts.Watcher(s.host())
	ended := api.Errorf(api.CodeJobEnded, "job %s has ended", job.ID)
	before, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.ExtendResponse{}, err
	case !found || s.submissions.asRecorded(before).State.Ended(): // its number may be another job's by now
		return api.ExtendResponse{}, ended
	}
	limit := job.End.Sub(job.Start) + time.Duration(req.Seconds)*time.Second
	if err := jobs.Extend(ctx, job.Ref(), limit); err != nil {
		return api.ExtendResponse{}, err
	}
	after, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.ExtendResponse{}, err
	case !found || after.State.Ended():
		return api.ExtendResponse{}, ended
	case !after.End.After(job.End):
		return api.ExtendResponse{}, api.Errorf(api.CodeFailed, "the scheduler accepted the request, but job %s still ends at %s",
			job.ID, facts.Clock(job.End, time.Now())).WithHint("the site may limit how far a job can be extended")
	}
	if newKeeper(s, jobs).due(after).After(time.Now().Add(keepSlack)) {
		s.submissions.leaveUnfollowed(job) // until the keeper knows of the extension
		after.Hint = s.submissions.cancelNext(fmt.Sprintf("job %s was extended", job.ID))
	}
	s.updateJob(ctx, after)
	return api.ExtendResponse{Job: after}, nil
}

// updateJob passes a job that was queried apart from the watch to the session, and waits
// until it is shown.
func (s *session) updateJob(ctx context.Context, job api.Job) {
	events := s.agent.hub.Subscribe("", api.AnswersNone)
	defer s.agent.hub.Unsubscribe(events)
	s.acting.Lock() // one offer at a time
	running := s.inProgress()
	if running {
		offer(s.jobUpdates, job)
	}
	s.acting.Unlock()
	if !running {
		s.submissions.setJob(job)
		return
	}
	events.Await(ctx, func() bool {
		now := s.known().Job
		return now == nil || now.End.Equal(job.End)
	})
}

// extendable is the session's job, if it runs and its host is connected.
func (s *session) extendable() (api.Job, error) {
	s.mu.Lock()
	job, host, connected, hasJob := s.facts.Job, s.cfg.Host, s.facts.Host.State == api.HostUp, s.hasJobLocked()
	s.mu.Unlock()
	switch {
	case !hasJob:
		return api.Job{}, onlyForwardsError(s.name)
	case job == nil || job.State.Ended():
		return api.Job{}, api.Errorf(api.CodeNotReady, "session %q has no running job to extend", s.name).
			WithHint("`tunctl up %s` starts one", s.name)
	case job.State.Waiting():
		return api.Job{}, api.Errorf(api.CodeNotReady, "job %s is still queued and cannot be extended", job.ID).
			WithHint("for a longer job, change the script, args or with of the session, then run `tunctl down %s --cancel` and `tunctl up %s`",
				s.name, s.name)
	case job.Start.IsZero() || job.End.IsZero():
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler reports no time limit for job %s", job.ID)
	case !connected:
		return api.Job{}, hosts.JobOutOfReach(host, job.ID, "extended")
	}
	return *job, nil
}
