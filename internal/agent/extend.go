package agent

import (
	"context"
	"fmt"
	"time"

	"tunctl/internal/agent/hosts"
	"tunctl/internal/api"
)

// extend asks the scheduler to give the session's job more time, and checks the result.
func (l *submissions) extend(ctx context.Context, by time.Duration) (api.Job, error) {
	s := l.session
	job, err := l.extendable()
	if err != nil {
		return api.Job{}, err
	}
	jobs := s.agent.hosts.Watcher(s.host())
	ended := api.Errorf(api.CodeJobEnded, "job %s has ended", job.ID)
	before, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.Job{}, err
	case !found || l.asRecorded(before).State.Ended(): // its number may be another job's by now
		return api.Job{}, ended
	}
	limit := job.End.Sub(job.Start) + by
	if err := jobs.Extend(ctx, job.Ref(), limit); err != nil {
		return api.Job{}, err
	}
	after, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.Job{}, err
	case !found || after.State.Ended():
		return api.Job{}, ended
	case !after.End.After(job.End):
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler accepted the request, but job %s still ends at %s",
			job.ID, api.ClockText(job.End, time.Now())).WithHint("the site may limit how far a job can be extended")
	}
	if newKeeper(s, jobs).due(after).After(time.Now().Add(keepSlack)) {
		l.leaveUnfollowed(job) // until the keeper knows of the extension
		after.Hint = l.cancelNext(fmt.Sprintf("job %s was extended", job.ID))
	}
	l.update(ctx, after)
	return after, nil
}

// update passes a job that was queried apart from the watch to the session, and waits
// until it is shown.
func (l *submissions) update(ctx context.Context, job api.Job) {
	s := l.session
	events := s.agent.hub.Subscribe("", api.AnswersNone)
	defer s.agent.hub.Unsubscribe(events)
	s.acting.Lock() // one offer at a time
	running := s.inProgress()
	if running {
		offer(s.jobUpdates, job)
	}
	s.acting.Unlock()
	if !running {
		l.setJob(job)
		return
	}
	events.Await(ctx, func() bool {
		known := s.known()
		now := known.Job()
		return now == nil || now.End.Equal(job.End)
	})
}

// extendable is the session's job, if it runs and its host is connected.
func (l *submissions) extendable() (api.Job, error) {
	s := l.session
	s.mu.Lock()
	job, host, connected, hasJob := s.facts.Job(), s.cfg.Host, s.facts.Host.State == api.HostUp, s.hasJobLocked()
	s.mu.Unlock()
	switch {
	case !hasJob:
		return api.Job{}, onlyForwardsError(s.name)
	case job == nil || job.State.Ended():
		return api.Job{}, api.Errorf(api.CodeNotReady, "session %q has no running job to extend", s.name).
			WithHint("`tunctl up %s` starts one", s.name)
	case job.State.Waiting():
		return api.Job{}, api.Errorf(api.CodeNotReady, "job %s is still queued", job.ID).
			WithHint("for a longer job, change the script, args or with of the session, then run `tunctl down %s --cancel` and `tunctl up %s`",
				s.name, s.name)
	case job.Start.IsZero() || job.End.IsZero():
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler reports no time limit for job %s", job.ID)
	case !connected:
		return api.Job{}, hosts.JobOutOfReach(host, job.ID)
	}
	return *job, nil
}
