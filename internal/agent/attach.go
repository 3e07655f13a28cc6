package agent

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/joblog"
)

const (
	// maxCandidates is how many running jobs are inspected for servers, if the scheduler
	// allows so many.
	maxCandidates = 10
	// candidateLines is how much of a job's log is read for that.
	candidateLines = 400
)

// handleAttach brings up a session for a job that was started by hand, or returns the
// jobs to choose from.
func (a *Agent) handleAttach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	a.useEnv(req.Env)
	if err := a.allowedAndConnected(ctx, req.Host); err != nil {
		return api.AttachResponse{}, err
	}
	jobs := a.jobWatcher(req.Host)
	job, choice, err := a.chooseJob(ctx, jobs, req)
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
func (a *Agent) chooseJob(ctx context.Context, jobs *jobwatch.Watcher, req api.AttachRequest) (api.Job, []api.Candidate, error) {
	if req.Job != "" {
		job, err := a.liveJob(ctx, req.Host, req.Job)
		return job, nil, err
	}
	all, err := jobs.Jobs(ctx)
	if err != nil {
		return api.Job{}, nil, err
	}
	running := slices.DeleteFunc(all, func(j api.Job) bool { return j.State != api.JobRunning })
	switch len(running) {
	case 0:
		return api.Job{}, nil, api.Errorf(api.CodeFailed, "no job of yours is running on %s", req.Host).
			WithHint("`tunctl attach %s JOB` waits for one that is queued", req.Host)
	case 1:
		job, err := a.liveJob(ctx, req.Host, running[0].Ref())
		return job, nil, err
	}
	candidates := a.inspectJobs(ctx, jobs, req.Host, running)
	serving := slices.DeleteFunc(slices.Clone(candidates), func(c api.Candidate) bool { return c.App == "" })
	if len(serving) == 1 {
		return serving[0].Job, nil, nil
	}
	return api.Job{}, candidates, nil
}

// liveJob finds a job by its ID, if it waits or runs.
func (a *Agent) liveJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.hostJob(ctx, host, id)
	if err == nil && job.State.Ended() {
		err = api.Errorf(api.CodeJobEnded, "%s", facts.EndText(&job, time.Now())).
			WithHint("`tunctl jobs %s` lists queued and running jobs", host)
	}
	return job, err
}

// inspectJobs searches the logs of the newest jobs for servers.
func (a *Agent) inspectJobs(ctx context.Context, jobs *jobwatch.Watcher, host string, running []api.Job) []api.Candidate {
	slices.SortStableFunc(running, func(x, y api.Job) int {
		return cmp.Or(y.Submitted.Compare(x.Submitted), cmp.Compare(len(y.ID), len(x.ID)), cmp.Compare(y.ID, x.ID))
	})
	var list []api.Candidate
	looks := jobs.MaxDetails(ctx, maxCandidates)
	for i, job := range running {
		c := api.Candidate{Job: job}
		if i < looks {
			if full, found, err := jobs.Find(ctx, jobwatch.Query{ID: job.Ref()}); err == nil && found {
				c.Job = full
			}
			c.App, c.Serve = a.detectServer(ctx, host, c.Job)
		}
		list = append(list, c)
	}
	return list
}

// detectServer returns the server in the last lines of a job's log, if any.
func (a *Agent) detectServer(ctx context.Context, host string, job api.Job) (app, where string) {
	if job.Log == "" {
		return "", ""
	}
	text, err := joblog.Tail(ctx, runner{host: a.pool.Host(host)}, job.Log, candidateLines)
	if err != nil {
		a.log.Debug("cannot read the log of a job", "job", job.ID, "err", err)
		return "", ""
	}
	d := a.detector("")
	_, _ = d.Write(text)
	d.Flush()
	f := d.Finding()
	switch {
	case !f.Found || f.Ended:
		return "", ""
	case f.Link != "":
		return f.App, f.Link
	}
	return f.App, f.Address()
}

// attach creates the session of a job that is not in the config.
func (a *Agent) attach(req api.AttachRequest, job api.Job) (*session, error) {
	name := cmp.Or(req.Name, attachedName(req.Host, job.ID))
	a.mu.Lock()
	defer a.mu.Unlock()
	_, configured := a.config.Session(name)
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

// servingTimeout is how long a look may search the logs of the person's running jobs.
const servingTimeout = 10 * time.Second

// handleLook finds out what a connected host has for a first session there.
func (a *Agent) handleLook(r *http.Request, _ api.None) (api.Look, error) {
	ctx, host := r.Context(), r.PathValue("host")
	if err := a.allowedAndConnected(ctx, host); err != nil {
		return api.Look{}, err
	}
	look, err := a.jobWatcher(host).Look(ctx)
	if err != nil {
		return look, schedulerError(host, err)
	}
	look.Serving = a.servingJobs(ctx, host)
	return look, nil
}

// servingJobs are the person's running jobs whose logs announce a server, as `tunctl attach`
// finds them. It is a part of a look that may fail.
func (a *Agent) servingJobs(ctx context.Context, host string) []api.Candidate {
	ctx, cancel := context.WithTimeout(ctx, servingTimeout)
	defer cancel()
	serving := []api.Candidate{}
	jobs := a.jobWatcher(host)
	all, err := jobs.Jobs(ctx)
	if err != nil {
		a.log.Debug("cannot list the jobs of a host", "host", host, "err", err)
		return serving
	}
	running := slices.DeleteFunc(all, func(j api.Job) bool { return j.State != api.JobRunning })
	for _, c := range a.inspectJobs(ctx, jobs, host, running) {
		if c.App != "" {
			serving = append(serving, c)
		}
	}
	return serving
}
