package agent

import (
	"context"
	"net/http"
	"slices"
	"time"

	"tunctl/internal/api"
)

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
