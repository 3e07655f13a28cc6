package agent

import (
	"context"
	"slices"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/api"
)

// handleAttach brings up a session for a job that was started by hand, or returns the
// jobs to choose from.
func (a *server) handleAttach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	a.hosts.UseEnv(req.Env)
	if err := a.hosts.AllowedAndConnected(ctx, req.Host); err != nil {
		return api.AttachResponse{}, err
	}
	job, choice, err := a.chooseJob(ctx, req)
	if err != nil || choice != nil {
		return api.AttachResponse{Candidates: choice}, err
	}
	s, err := a.sessions.attach(req, job)
	if err != nil {
		return api.AttachResponse{}, err
	}
	up := a.startFor(ctx, s)
	return api.AttachResponse{Session: &up.Session, At: up.At}, nil
}

// chooseJob finds the job of a request: the named one, the only one that runs, or the
// only one that serves something. Otherwise it returns those to choose from.
func (a *server) chooseJob(ctx context.Context, req api.AttachRequest) (api.Job, []api.Candidate, error) {
	if req.Job != "" {
		job, err := a.liveJob(ctx, req.Host, req.Job)
		return job, nil, err
	}
	running, err := a.hosts.Running(ctx, req.Host)
	if err != nil {
		return api.Job{}, nil, err
	}
	switch len(running) {
	case 0:
		return api.Job{}, nil, api.Errorf(api.CodeFailed, "no job of yours is running on %s", req.Host).
			WithHint("`tunctl attach %s JOB` waits for one that is queued", req.Host)
	case 1:
		job, err := a.liveJob(ctx, req.Host, running[0].Ref())
		return job, nil, err
	}
	candidates := a.hosts.Inspect(ctx, req.Host, running)
	serving := slices.DeleteFunc(slices.Clone(candidates), func(c api.Candidate) bool { return c.App == "" })
	if len(serving) == 1 {
		return serving[0].Job, nil, nil
	}
	return api.Job{}, candidates, nil
}

// liveJob finds a job by its ID, if it waits or runs.
func (a *server) liveJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.hosts.Job(ctx, host, id)
	if err == nil && job.State.Ended() {
		err = api.Errorf(api.CodeJobEnded, "%s", facts.EndText(&job, time.Now())).
			WithHint("`tunctl jobs %s` lists queued and running jobs", host)
	}
	return job, err
}
