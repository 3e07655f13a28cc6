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
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
)

// submitTimeout is how long a submission may wait for a lost connection or a scheduler
// that does not respond. After that its result is unknown.
const submitTimeout = 10 * time.Minute

// watcherKey identifies a job watcher. The name of a host is not enough: the config can
// give it another scheduler or another account.
type watcherKey struct {
	host, account string
	scheduler     string
	private       string
	limits        remote.Limits
}

// jobWatcher returns the job watcher of a host as it is configured now.
func (a *Agent) jobWatcher(host string) *jobwatch.Watcher {
	w, _ := a.jobWatcherOn(host)
	return w
}

// jobWatcherOn returns the job watcher of a host as it is configured now, which its
// sessions share, and its account; "" if the host was never connected. A watcher of an
// earlier config serves those who have it, and is idle without them.
func (a *Agent) jobWatcherOn(host string) (w *jobwatch.Watcher, account string) {
	options, h := a.watchOptions(host), a.pool.Host(host)
	key := watcherKey{host: host, account: h.Account(), scheduler: options.Scheduler, private: options.Private, limits: options.Limits}
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.jobWatchers[key]
	if !ok {
		w = jobwatch.NewWatcher(runner{h, key.account}, options)
		a.jobWatchers[key] = w
		ctx := a.ctx
		a.work.Go(func() { a.report("job watch", w.Serve(ctx)) })
	}
	return w, key.account
}

// connectedJobs is the job watcher of a host that must be connected.
func (a *Agent) connectedJobs(host string) (*jobwatch.Watcher, error) {
	if err := a.requireConnected(host); err != nil {
		return nil, err
	}
	return a.jobWatcher(host), nil
}

// handleJobs lists the person's jobs on a connected host.
func (a *Agent) handleJobs(r *http.Request, _ url.Values) (api.JobsResponse, error) {
	host := r.PathValue("host")
	jobs, err := a.connectedJobs(host)
	if err != nil {
		return api.JobsResponse{}, err
	}
	a.observeAll() // the host may have been connected just now
	list, err := jobs.Jobs(r.Context())
	over := []api.Job{}
	if err == nil && r.URL.Query().Get("ended") != "" {
		over, err = jobs.Recent(r.Context())
	}
	return api.JobsResponse{Jobs: append(over, list...)}, schedulerError(host, err)
}

// handleLastJobs lists the jobs that a host's scheduler reported last and those of its
// sessions, for shell completion: it queries no scheduler and makes no connection.
func (a *Agent) handleLastJobs(r *http.Request, _ api.None) (api.JobsResponse, error) {
	host := r.PathValue("host")
	a.mu.Lock()
	var watchers []*jobwatch.Watcher
	for key, w := range a.jobWatchers {
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
	all := slices.SortedFunc(maps.Values(byRef), func(a, b api.Job) int { return cmp.Compare(a.Ref(), b.Ref()) })
	return api.JobsResponse{Jobs: all}, nil
}

// handleJob returns all details of one job.
func (a *Agent) handleJob(r *http.Request, _ api.None) (api.JobResponse, error) {
	job, err := a.hostJob(r.Context(), r.PathValue("host"), r.PathValue("id"))
	return api.JobResponse{Job: job}, err
}

func (a *Agent) hostJob(ctx context.Context, host, id string) (api.Job, error) {
	jobs, err := a.connectedJobs(host)
	if err != nil {
		return api.Job{}, err
	}
	job, found, err := jobs.Find(ctx, jobwatch.Query{ID: id})
	switch {
	case err != nil:
		return api.Job{}, schedulerError(host, err)
	case !found:
		return api.Job{}, api.Errorf(api.CodeFailed, "no job %q on %s", id, host).
			WithHint("`tunctl jobs %s --all` lists your jobs", host)
	}
	return job, nil
}

// handleScheduler returns the scheduler of a connected host.
func (a *Agent) handleScheduler(r *http.Request, _ api.None) (api.SchedulerResponse, error) {
	host := r.PathValue("host")
	jobs, err := a.connectedJobs(host)
	if err != nil {
		return api.SchedulerResponse{}, err
	}
	name, err := jobs.Scheduler(r.Context())
	return api.SchedulerResponse{Scheduler: name}, schedulerError(host, err)
}

// handleSubmitJob submits a job that belongs to no session.
func (a *Agent) handleSubmitJob(r *http.Request, req api.SubmitRequest) (api.JobResponse, error) {
	host := r.PathValue("host")
	jobs, err := a.connectedJobs(host)
	if err != nil {
		return api.JobResponse{}, err
	}
	cfg := configs.Session{Host: host, Submit: req.Script, Args: req.Args, Workdir: req.Workdir}
	sub, err := a.submission(r.Context(), cfg, jobs, "submit-"+strings.ToLower(rand.Text()[:10]), nil)
	if err != nil {
		return api.JobResponse{}, err
	}
	limited, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	var job api.Job
	err = a.retryUntilUp(limited, a.pool.Host(host), func() error {
		job, err = jobs.Submit(limited, sub)
		return err
	}, func(error) {})
	if err != nil && limited.Err() != nil {
		return api.JobResponse{}, api.Errorf(api.CodeNeedsPerson, "tunctl cannot tell whether the job was submitted: %w", err).
			WithHint("check with `tunctl jobs %s --all` before you submit it again", host)
	}
	return api.JobResponse{Job: job}, err
}

// handleCancelJob ends a job.
func (a *Agent) handleCancelJob(r *http.Request, _ api.None) (api.JobResponse, error) {
	job, err := a.cancelJob(r.Context(), r.PathValue("host"), r.PathValue("id"))
	return api.JobResponse{Job: job}, err
}

func (a *Agent) cancelJob(ctx context.Context, host, id string) (api.Job, error) {
	job, err := a.hostJob(ctx, host, id)
	if err == nil && !job.State.Ended() {
		a.markCancelled(host, job)
		err = schedulerError(host, a.jobWatcher(host).Cancel(ctx, job.Ref()))
	}
	return job, err
}

// markCancelled records that a person cancels a job: the end of its session is then what they
// wanted, no job is submitted in its place, and what was to follow it is cancelled too.
func (a *Agent) markCancelled(host string, job api.Job) {
	for _, s := range a.live() {
		rec := a.store.Session(s.name)
		if s.host() != host || rec.Submissions.Of(job).Job == nil {
			continue
		}
		s.mu.Lock()
		s.cancelledJob = job.ID
		s.endPermitLocked()
		s.mu.Unlock()
		if rec.Submissions.Of(job).Role == state.RoleJob {
			s.cancelNext(fmt.Sprintf("you cancelled job %s", job.ID))
		}
	}
}

// schedulerError says which host has the scheduler that does not respond.
func schedulerError(host string, err error) error {
	if err == nil || !isNoAnswer(err) {
		return err
	}
	return api.Errorf(api.CodeUnreachable, "%s: %w", host, err).
		WithHint("jobs keep running; try again in a few minutes")
}
