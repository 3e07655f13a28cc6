package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// submitPatience is how long a submission may wait for a lost link or a silent
// scheduler before the person is told that its fate is open.
const submitPatience = 10 * time.Minute

// handleJobs lists the person's jobs on a connected host.
func (a *Agent) handleJobs(w http.ResponseWriter, r *http.Request) {
	jobs, err := a.hostJobs(r.Context(), r.PathValue("host"), r.URL.Query().Get("ended") != "")
	answer(w, api.JobsResponse{Jobs: jobs}, err)
}

func (a *Agent) hostJobs(ctx context.Context, host string, ended bool) ([]api.Job, error) {
	jobs, err := a.jobsOn(host)
	if err != nil {
		return nil, err
	}
	list, err := jobs.Jobs(ctx)
	if err != nil {
		return nil, aboutScheduler(host, err)
	}
	if !ended {
		return append([]api.Job{}, list...), nil
	}
	over, err := jobs.Recent(ctx)
	return append(over, list...), aboutScheduler(host, err)
}

// handleLastJobs lists the jobs that a host's scheduler reported last and those of its
// sessions, for a shell that completes a word: it asks the scheduler nothing, and makes no connection.
func (a *Agent) handleLastJobs(w http.ResponseWriter, r *http.Request) {
	reply(w, api.JobsResponse{Jobs: a.lastJobs(r.PathValue("host"))})
}

func (a *Agent) lastJobs(host string) []api.Job {
	a.mu.Lock()
	var watchers []*jobwatch.Watcher
	for key, w := range a.watchers {
		if key.host == host {
			watchers = append(watchers, w)
		}
	}
	a.mu.Unlock()
	byRef := map[string]api.Job{}
	for _, s := range a.Status().Sessions { // a job just submitted is in no list yet
		if s.Host == host && s.Job != nil && !s.Job.State.Ended() {
			byRef[s.Job.Ref()] = *s.Job
		}
	}
	for _, w := range watchers {
		for _, job := range w.LastJobs() {
			byRef[job.Ref()] = job
		}
	}
	return slices.SortedFunc(maps.Values(byRef), func(a, b api.Job) int { return cmp.Compare(a.Ref(), b.Ref()) })
}

// handleJob tells all there is to know of one job.
func (a *Agent) handleJob(w http.ResponseWriter, r *http.Request) {
	job, err := a.hostJob(r.Context(), r.PathValue("host"), r.PathValue("id"))
	answer(w, api.JobResponse{Job: job}, err)
}

func (a *Agent) hostJob(ctx context.Context, host, id string) (api.Job, error) {
	jobs, err := a.jobsOn(host)
	if err != nil {
		return api.Job{}, err
	}
	job, found, err := jobs.Find(ctx, jobwatch.Query{ID: id})
	switch {
	case err != nil:
		return api.Job{}, aboutScheduler(host, err)
	case !found:
		return api.Job{}, &api.Error{
			Code: api.CodeFailed, Message: fmt.Sprintf("no job %q on %s", id, host),
			Hint: fmt.Sprintf("`tunctl jobs %s --all` lists your jobs", host),
		}
	}
	return job, nil
}

// handleScheduler tells which scheduler a connected host has.
func (a *Agent) handleScheduler(w http.ResponseWriter, r *http.Request) {
	host := r.PathValue("host")
	var name string
	jobs, err := a.jobsOn(host)
	if err == nil {
		name, err = jobs.Scheduler(r.Context())
		err = aboutScheduler(host, err)
	}
	answer(w, api.SchedulerResponse{Scheduler: name}, err)
}

// handleSubmitJob submits a job that belongs to no session.
func (a *Agent) handleSubmitJob(w http.ResponseWriter, r *http.Request) {
	var req api.SubmitRequest
	err := decode(r, &req)
	if err != nil {
		fail(w, err)
		return
	}
	job, err := a.submitJob(r.Context(), r.PathValue("host"), req)
	answer(w, api.JobResponse{Job: job}, err)
}

func (a *Agent) submitJob(ctx context.Context, host string, req api.SubmitRequest) (api.Job, error) {
	jobs, err := a.jobsOn(host)
	if err != nil {
		return api.Job{}, err
	}
	cfg := configs.Session{Host: host, Submit: req.Script, Args: req.Args, Workdir: req.Workdir}
	sub, err := a.submission(ctx, cfg, jobs, "submit-"+strings.ToLower(rand.Text()[:10]))
	if err != nil {
		return api.Job{}, err
	}
	limited, cancel := context.WithTimeout(ctx, submitPatience)
	defer cancel()
	var job api.Job
	err = a.retryUntilUp(limited, a.pool.Host(host), func() error {
		job, err = jobs.Submit(limited, sub)
		return err
	}, func(error) {})
	if err != nil && limited.Err() != nil {
		return api.Job{}, &api.Error{
			Code: api.CodeNeedsPerson, Message: fmt.Sprintf("tunctl cannot tell whether the job was submitted: %v", err), Err: err,
			Hint: fmt.Sprintf("check with `tunctl jobs %s --all` before you submit it again", host),
		}
	}
	return job, err
}

// handleCancelJob ends a job.
func (a *Agent) handleCancelJob(w http.ResponseWriter, r *http.Request) {
	host, id := r.PathValue("host"), r.PathValue("id")
	job, err := a.hostJob(r.Context(), host, id)
	if err == nil && !job.State.Ended() {
		a.dropping(host, job.ID)
		err = aboutScheduler(host, a.watcher(host).Cancel(r.Context(), job.Ref()))
	}
	answer(w, api.JobResponse{Job: job}, err)
}

// dropping notes that a person cancels a job: the session that it serves ends as
// they want.
func (a *Agent) dropping(host, id string) {
	for _, s := range a.live() {
		if s.host() != host {
			continue
		}
		s.mu.Lock()
		s.dropped = id
		s.mu.Unlock()
	}
}

// jobsOn is a connected host's job watcher. It never connects: that is a person's act.
func (a *Agent) jobsOn(host string) (*jobwatch.Watcher, error) {
	if err := a.requireConnected(host); err != nil {
		return nil, err
	}
	return a.watcher(host), nil
}

// aboutScheduler says whose silence it is.
func aboutScheduler(host string, err error) error {
	if err == nil || !isNoAnswer(err) {
		return err
	}
	return &api.Error{
		Code: api.CodeUnreachable, Message: fmt.Sprintf("%s: %v", host, err), Err: err,
		Hint: "jobs keep running; try again in a few minutes",
	}
}

// answer sends what was asked for, or why there is none.
func answer(w http.ResponseWriter, out any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, out)
}
