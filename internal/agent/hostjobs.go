package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/jobwatch"
)

// submitTimeout is how long a submission may wait for a lost connection or a scheduler
// that does not respond. After that its result is unknown.
const submitTimeout = 10 * time.Minute

// handleJobs lists the user's jobs on a connected host.
func (a *server) handleJobs(r *http.Request, _ url.Values) (api.JobsResponse, error) {
	host := r.PathValue("host")
	if err := a.Hosts.Connected(host); err != nil {
		return api.JobsResponse{}, err
	}
	a.Sessions.ObserveAll() // the host may have been connected just now
	return a.Hosts.Jobs(r.Context(), host, r.URL.Query().Get("ended") != "")
}

// handleLastJobs lists the jobs that a host's scheduler reported last and those of its
// sessions, for shell completion: it queries no scheduler and makes no connection.
func (a *server) handleLastJobs(r *http.Request, _ api.None) (api.JobsResponse, error) {
	host := r.PathValue("host")
	byRef := map[string]api.Job{}
	for _, s := range a.status().Sessions { // a job just submitted is in no list yet
		if s.Host == host && s.Job != nil && !s.Job.State.Ended() {
			byRef[s.Job.Ref()] = *s.Job
		}
	}
	for _, job := range a.Hosts.LastJobs(host) {
		byRef[job.Ref()] = job
	}
	all := slices.SortedFunc(maps.Values(byRef), func(a, b api.Job) int {
		return cmp.Or(jobwatch.CompareJobs(a, b), cmp.Compare(a.Ref(), b.Ref()))
	})
	return api.JobsResponse{Jobs: all}, nil
}

// handleSubmitJob submits a job that belongs to no session.
func (a *server) handleSubmitJob(r *http.Request, req api.SubmitRequest) (api.JobResponse, error) {
	host := r.PathValue("host")
	jobs, err := a.Hosts.ConnectedWatcher(host)
	if err != nil {
		return api.JobResponse{}, err
	}
	cfg := configs.Session{Host: host, Submit: req.Script, Args: req.Args, Workdir: req.Workdir}
	sub, err := a.Source(cfg).Unchecked(nil).Order(r.Context(), jobs, "submit-"+strings.ToLower(rand.Text()[:10]))
	if err != nil {
		return api.JobResponse{}, err
	}
	rec := state.Submission{Tag: sub.Tag, Role: state.RoleJob, Host: host, Account: a.Hosts.Pool.Host(host).Account()}
	if err := a.Store.Update(sub.Tag, func(s *state.Session) { s.Submissions = state.Submissions{rec} }); err != nil {
		return api.JobResponse{}, fmt.Errorf("nothing was submitted: %w", err)
	}
	limited, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	var job api.Job
	var last error
	err = a.Hosts.RetryUntilUp(limited, a.Hosts.Pool.Host(host), func() error {
		job, last = jobs.Submit(limited, sub)
		return last
	}, func(error) {})
	if refused := submit.RefuseUnreached(last); err != nil && r.Context().Err() == nil && api.HasCode(refused, api.CodeSubmit) {
		err = refused
	}
	s, missing := a.Sessions.Find(sub.Tag) // as if it had a section that was removed
	if missing != nil {
		return api.JobResponse{Job: job}, cmp.Or(err, missing)
	}
	if err == nil || api.HasCode(err, api.CodeSubmit) { // the user knows the result
		a.Sessions.Forget(s)
		return api.JobResponse{Job: job}, err
	}
	s.Jobs.Lost(rec, err)
	if limited.Err() != nil {
		err = api.Errorf(api.CodeNeedsPerson, "tunctl cannot tell whether the job was submitted: %w", err).
			WithHint("`tunctl status` shows it if it appears; check with `tunctl jobs %s --all` before you submit it again", host)
	}
	return api.JobResponse{}, err
}

// cancelJob ends a job.
func (a *server) cancelJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.Hosts.Job(ctx, host, id)
	if err == nil && !job.State.Ended() {
		if err = hosts.SchedulerError(host, a.Hosts.Watcher(host).Cancel(ctx, job.Ref())); err == nil {
			account := a.Hosts.Pool.Host(host).Account()
			for _, s := range a.Sessions.Live() {
				s.Jobs.MarkCancelled(job, host, account)
			}
		}
	}
	return job, err
}
