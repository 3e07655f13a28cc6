package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/logs"
	"tunctl/internal/agent/session"
	"tunctl/internal/api"
	"tunctl/internal/localapi"
)

// jobLog is the log of a job as the scheduler reports it.
func (a *server) jobLog(ctx context.Context, host, id string) (logs.Stream, error) {
	job, err := a.Hosts.Job(ctx, host, id)
	if err != nil {
		return logs.Stream{}, err
	}
	path := job.Log
	if path == "" && len(job.OtherLogs) > 0 {
		path = job.OtherLogs[0]
	}
	if path == "" {
		return logs.Stream{}, api.Errorf(api.CodeNotReady, "no readable log for job %s, which is %s", job.ID, job.State).
			WithHint("%s", job.Hint)
	}
	return logs.Stream{Reader: hosts.Runner{Host: a.Hosts.Pool.Host(host)}, Path: path, End: a.endOf(host, job)}, nil
}

// endOf waits for the end of a job, and says how it ended. It has the scheduler queried meanwhile.
func (a *server) endOf(host string, job api.Job) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if !job.State.Ended() {
			watch := a.Hosts.Watcher(host).Watch(job.Ref())
			defer watch.Close()
			for !job.State.Ended() {
				select {
				case report := <-watch.C():
					job = report.Job
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
		src, err = a.sessionLog(session)
	} else {
		src, err = a.jobLog(r.Context(), r.PathValue("host"), r.PathValue("id"))
	}
	if err != nil {
		localapi.Fail(w, err)
		return
	}
	src.Serve(w, r, a.Limits.Jobs, a.Log)
}

// sessionLog is the log of a session's job.
func (a *server) sessionLog(name string) (logs.Stream, error) {
	s, err := a.Sessions.Find(name)
	if err != nil {
		return logs.Stream{}, err
	}
	if !s.HasJob() {
		return logs.Stream{}, session.OnlyForwards(s.Name)
	}
	known := s.Facts()
	job := cmp.Or(known.Job(), a.Store.Session(name).Current().Job)
	if job == nil {
		return logs.Stream{}, api.Errorf(api.CodeNotReady, "session %q has no job, so there is no log", name).
			WithHint("`tunctl up %s` starts it", name)
	}
	log := s.JobLog()
	src := logs.Stream{Reader: log.Reader(), Path: log.Path(*job), End: a.endOf(s.Host(), *job)}
	if known.Endpoint != nil {
		src.Known = known.Endpoint.Secrets()
	}
	over, remote := src.Reader.(hosts.Runner)
	switch {
	case src.Path == "":
		return src, api.Errorf(api.CodeNotReady, "log path of job %s is not known yet", job.ID).
			WithHint("%s",
				cmp.Or(job.Hint, fmt.Sprintf("the job is %s; log = \"~/{name}.{id}.log\" in [session.%s] sets the path", job.State, name)))
	case remote && over.Host.Status().State != api.HostUp:
		return src, hosts.NotConnected(s.Host(), ", where the log is")
	}
	return src, nil
}
