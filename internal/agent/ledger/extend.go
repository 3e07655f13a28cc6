package ledger

import (
	"context"
	"fmt"
	"time"

	"tunctl/internal/agent/hosts"
	"tunctl/internal/api"
)

// Extend asks the scheduler to give the session's job more time, and checks the result. It does
// not record it.
func (l *Ledger) Extend(ctx context.Context, by time.Duration) (api.Job, error) {
	job, err := l.extendable()
	if err != nil {
		return api.Job{}, err
	}
	jobs := l.Hosts.Watcher(l.host())
	ended := api.Errorf(api.CodeJobEnded, "job %s has ended", job.ID)
	before, found, err := jobs.Detail(ctx, job.Ref())
	switch {
	case err != nil:
		return api.Job{}, err
	case !found || l.AsRecorded(before).State.Ended(): // its number may be another job's by now
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
	if l.NewKeeper(jobs).due(after).After(time.Now().Add(KeepSlack)) {
		l.leaveUnfollowed(job) // until the keeper knows of the extension
		after.Hint = l.cancelNext(fmt.Sprintf("job %s was extended", job.ID))
	}
	return after, nil
}

// extendable is the session's job, if it runs and its host is connected.
func (l *Ledger) extendable() (api.Job, error) {
	known := l.owner.Facts()
	job := known.Job()
	switch {
	case job == nil || job.State.Ended():
		return api.Job{}, api.Errorf(api.CodeNotReady, "session %q has no running job to extend", l.Name).
			WithHint("`tunctl up %s` starts one", l.Name)
	case job.State.Waiting():
		return api.Job{}, api.Errorf(api.CodeNotReady, "job %s is still queued", job.ID).
			WithHint("for a longer job, change the script, args or with of the session, then run `tunctl down %s --cancel` and `tunctl up %s`",
				l.Name, l.Name)
	case job.Start.IsZero() || job.End.IsZero():
		return api.Job{}, api.Errorf(api.CodeFailed, "the scheduler reports no time limit for job %s", job.ID)
	case known.Host.State != api.HostUp:
		return api.Job{}, hosts.JobOutOfReach(l.host(), job.ID)
	}
	return *job, nil
}
