package agent

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
)

// handleAttach brings up a session for a job that was started by hand, or returns the
// jobs to choose from.
func (a *Agent) handleAttach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	a.hosts.UseEnv(req.Env)
	if err := a.hosts.AllowedAndConnected(ctx, req.Host); err != nil {
		return api.AttachResponse{}, err
	}
	job, choice, err := a.chooseJob(ctx, req)
	if err != nil || choice != nil {
		return api.AttachResponse{Candidates: choice}, err
	}
	s, err := a.attach(req, job)
	if err != nil {
		return api.AttachResponse{}, err
	}
	up := a.startFor(ctx, s)
	return api.AttachResponse{Session: &up.Session, At: up.At}, nil
}

// chooseJob finds the job of a request: the named one, the only one that runs, or the
// only one that serves something. Otherwise it returns those to choose from.
func (a *Agent) chooseJob(ctx context.Context, req api.AttachRequest) (api.Job, []api.Candidate, error) {
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
func (a *Agent) liveJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.hosts.Job(ctx, host, id)
	if err == nil && job.State.Ended() {
		err = api.Errorf(api.CodeJobEnded, "%s", facts.EndText(&job, time.Now())).
			WithHint("`tunctl jobs %s` lists queued and running jobs", host)
	}
	return job, err
}

// attach creates the session of a job that is not in the config.
func (a *Agent) attach(req api.AttachRequest, job api.Job) (*session, error) {
	name := cmp.Or(req.Name, attachedName(req.Host, job.ID))
	a.mu.Lock()
	defer a.mu.Unlock()
	_, configured := a.settings.Config().Session(name)
	rec := a.store.Session(name)
	known := rec.Attached != "" && rec.Submissions.Of(job).Job != nil
	s, live := a.sessions[name]
	switch {
	case live && known:
		return s, nil
	case live || configured:
		return nil, api.Errorf(api.CodeUsage, "session %q already exists", name).
			WithHint("choose another name with --save")
	}
	err := a.store.Update(name, func(r *state.Session) {
		*r = state.Session{Attached: req.Host, Port: r.Port, Submissions: state.Submissions{{Role: state.RoleJob, Job: &job, Host: req.Host}}}
	})
	if err != nil {
		return nil, err
	}
	return a.addLocked(attachedConfig(name, req.Host), attached), nil
}

// attachedConfig are the settings of a session for a job that is not in the config.
func attachedConfig(name, host string) configs.Session {
	return configs.Session{Name: name, Host: host, Reach: api.ReachAuto, Open: true}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// attachedName names a session after its host and its job, as in narval-48213.
func attachedName(host, id string) string {
	number, _, _ := strings.Cut(id, ".") // PBS adds its server's name
	return strings.Trim(notInNames.ReplaceAllString(host+"-"+number, "-"), "-")
}
