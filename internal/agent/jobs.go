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
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/logs"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
	"tunctl/internal/posixsh"
	"tunctl/jobwatch"
)

// submitTimeout is how long a submission may wait for a lost connection or a scheduler
// that does not respond. After that its result is unknown.
const submitTimeout = 10 * time.Minute

// handleJobs lists the user's jobs on a connected host.
func (a *server) handleJobs(r *http.Request, _ url.Values) (api.JobsResponse, error) {
	a.Sessions.ObserveAll() // the host may have been connected just now
	return a.Hosts.Jobs(r.Context(), r.PathValue("host"), r.URL.Query().Get("ended") != "")
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
	jobs, err := a.Hosts.ConnectedWatcher(r.Context(), host)
	if err != nil {
		return api.JobResponse{}, err
	}
	plan, err := a.submitPlan(host, req)
	if err != nil {
		return api.JobResponse{}, err
	}
	sub, err := plan.Order(r.Context(), jobs, "submit-"+strings.ToLower(rand.Text()[:10]))
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
		job, last = plan.Submit(limited, jobs, sub)
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

// submitPlan is what a request submits: a script, or the words of `tunctl run`.
func (a *server) submitPlan(host string, req api.SubmitRequest) (submit.Plan, error) {
	cfg := configs.Session{Host: host, Submit: req.Script, Args: req.Args, Workdir: req.Workdir}
	if len(req.Command) == 0 {
		return a.Source(cfg).Unchecked(nil), nil
	}
	section := ""
	if req.Session != "" {
		s, err := a.Sessions.Find(req.Session)
		if err != nil {
			return submit.Plan{}, err
		}
		s.Reconfigure()
		cfg, section = s.Config(), a.Sessions.Section(s.Name)
		cfg.Host = host
	}
	if cfg.Submit != "" && cfg.Builtin() == "" {
		return submit.Plan{}, api.Errorf(api.CodeUsage, "session %s has a job script of its own, whose settings tunctl does not use for another command", req.Session).
			WithHint("`tunctl run %s -- %s` runs it without them; --with NAME=VALUE before -- chooses others", host, posixsh.Typed(req.Command...))
	}
	source := a.Source(cfg.Run(req.Mark, req.Command))
	source.Section = section
	return source.Plan(req.With)
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

// jobLog is the log of a job as the scheduler reports it.
func (a *server) jobLog(ctx context.Context, host, id string) (logs.Stream, error) {
	job, err := a.Hosts.Job(ctx, host, id)
	if err != nil {
		return logs.Stream{}, err
	}
	path := cmp.Or(append([]string{job.Log}, job.OtherLogs...)...)
	if path == "" {
		return logs.Stream{}, api.Errorf(api.CodeNotReady, "no readable log for job %s, which is %s", job.ID, job.State).
			WithHint("%s", cmp.Or(job.Hint, `log = "~/{name}.{id}.log" in the config of a session sets the path`))
	}
	return logs.Stream{Reader: hosts.Runner{Host: a.Hosts.Pool.Host(host)}, Path: path, End: a.endOf(host, job)}, nil
}

// endOf waits for the end of a job, and says how it ended. It has the scheduler queried meanwhile.
func (a *server) endOf(host string, job api.Job) func(context.Context, func(api.Job)) (string, error) {
	return func(ctx context.Context, each func(api.Job)) (string, error) {
		each(job)
		if !job.State.Ended() {
			watch := a.Hosts.Watcher(host).Watch(job.Ref())
			defer watch.Close()
			for !job.State.Ended() {
				select {
				case report := <-watch.C():
					job = report.Job
					each(job)
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
		}
		return facts.EndText(&job, time.Now()), nil
	}
}

// handleLog streams the log of a session's job, or of any job of the user, redacted unless
// secrets are requested.
func (a *server) handleLog(w http.ResponseWriter, r *http.Request) {
	var src logs.Stream
	var err error
	if session := r.PathValue("name"); session != "" {
		src, err = a.sessionLog(r.Context(), session, r.URL.Query().Get("follow") != "")
	} else {
		src, err = a.jobLog(r.Context(), r.PathValue("host"), r.PathValue("id"))
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	src.Serve(w, r, a.Limits.Jobs, a.Log)
}

// sessionLog is the log of a session's job or, until it has one, of its last job. A log to follow is
// that of the job.
func (a *server) sessionLog(ctx context.Context, name string, follow bool) (logs.Stream, error) {
	s, err := a.Sessions.Find(name)
	if err != nil {
		return logs.Stream{}, err
	}
	if !s.HasJob() {
		return logs.Stream{}, session.OnlyForwards(s.Name)
	}
	known := s.Facts()
	job, next := cmp.Or(known.Job(), a.Store.Session(name).Current().Job), ""
	if last := a.History.LastJob(name, s.Host()); last != nil && (job == nil || job.State.Waiting() && !follow) {
		if job != nil {
			next = fmt.Sprintf("; job %s is %s", job.ID, job.State)
		}
		job = last
	}
	if job == nil {
		return logs.Stream{}, api.Errorf(api.CodeNotReady, "session %q has no job, so there is no log", name).
			WithHint("`tunctl up %s` starts it", name)
	}
	log := s.JobLog()
	src := logs.Stream{Reader: log.Reader(), Path: log.Path(*job), End: a.endOf(s.Host(), *job)}
	if job.State.Ended() {
		src.Over = facts.EndText(job, time.Now()) + next
	}
	if known.Endpoint != nil {
		src.Known = known.Endpoint.Secrets()
	}
	over, remote := src.Reader.(hosts.Runner)
	if remote && over.Host.Status().State != api.HostUp {
		return src, hosts.NotConnected(s.Host(), ", where the log is")
	}
	if src.Path == "" { // the session went down before the scheduler told it
		return a.jobLog(ctx, s.Host(), job.Ref())
	}
	return src, nil
}

// handleEndJobs ends jobs one after another, so that no scheduler gets them all at once. It continues if
// the client leaves.
func (a *server) handleEndJobs(w http.ResponseWriter, r *http.Request) {
	var req api.EndJobsRequest
	if err := localapi.Decode(w, r, &req); err != nil {
		localapi.Fail(w, err)
		return
	}
	a.Hosts.UseEnv(req.Env)
	out, ctx := localapi.NewLines(w), context.WithoutCancel(r.Context())
	for i, job := range req.Jobs {
		progress := api.EndJobsProgress{Done: i + 1}
		var err error
		if job.Session != "" {
			_, err = a.handleDown(ctx, api.DownRequest{Session: job.Session, Cancel: true})
		} else {
			_, err = a.cancelJob(ctx, job.Host, job.Job)
		}
		if err != nil {
			progress.Error = localapi.ErrorOf(err)
		}
		_ = out.Send(progress) // nobody may read it any more
	}
}
