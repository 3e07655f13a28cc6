package client

import (
	"context"
	"net/http"
	"net/url"

	"tunctl/internal/api"
)

// Jobs lists the person's jobs on a host; with ended, those of the last day too.
func (c *Client) Jobs(ctx context.Context, host string, ended bool) ([]api.Job, error) {
	path := jobsPath(host)
	if ended {
		path += "?ended=1"
	}
	r, err := ask[api.JobsResponse](ctx, c.patient(), http.MethodGet, path, nil)
	return r.Jobs, err
}

// LastJobs lists the jobs that a host's scheduler reported last. Nobody is asked for
// them, and an agent of an earlier version, which has no such list, returns an error.
func (c *Client) LastJobs(ctx context.Context, host string) ([]api.Job, error) {
	r, err := ask[api.JobsResponse](ctx, c, http.MethodGet, "/v1/hosts/"+url.PathEscape(host)+"/last-jobs", nil)
	return r.Jobs, err
}

// Scheduler returns which scheduler a connected host has.
func (c *Client) Scheduler(ctx context.Context, host string) (string, error) {
	r, err := ask[api.SchedulerResponse](ctx, c.patient(), http.MethodGet, "/v1/hosts/"+url.PathEscape(host)+"/scheduler", nil)
	return r.Scheduler, err
}

// Submit submits a job. It returns when the scheduler has taken it: a link that is
// lost meanwhile is waited for.
func (c *Client) Submit(ctx context.Context, host string, req api.SubmitRequest) (api.Job, error) {
	r, err := ask[api.JobResponse](ctx, c.patient(), http.MethodPost, jobsPath(host), req)
	return r.Job, err
}

// Job returns all that the scheduler tells of one job.
func (c *Client) Job(ctx context.Context, host, id string) (api.Job, error) {
	r, err := ask[api.JobResponse](ctx, c.patient(), http.MethodGet, jobsPath(host)+"/"+url.PathEscape(id), nil)
	return r.Job, err
}

// Cancel ends a job and returns it as it was before.
func (c *Client) Cancel(ctx context.Context, host, id string) (api.Job, error) {
	r, err := ask[api.JobResponse](ctx, c.patient(), http.MethodDelete, jobsPath(host)+"/"+url.PathEscape(id), nil)
	return r.Job, err
}

func jobsPath(host string) string { return "/v1/hosts/" + url.PathEscape(host) + "/jobs" }
