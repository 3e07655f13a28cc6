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
	var r api.JobsResponse
	return r.Jobs, c.patiently(ctx, http.MethodGet, path, nil, &r)
}

// Submit submits a job. It returns when the scheduler has taken it: a link that is
// lost meanwhile is waited for.
func (c *Client) Submit(ctx context.Context, host string, req api.SubmitRequest) (api.Job, error) {
	var r api.JobResponse
	return r.Job, c.patiently(ctx, http.MethodPost, jobsPath(host), req, &r)
}

// Job returns all that the scheduler tells of one job.
func (c *Client) Job(ctx context.Context, host, id string) (api.Job, error) {
	var r api.JobResponse
	return r.Job, c.patiently(ctx, http.MethodGet, jobsPath(host)+"/"+url.PathEscape(id), nil, &r)
}

// Cancel ends a job and returns it as it was before.
func (c *Client) Cancel(ctx context.Context, host, id string) (api.Job, error) {
	var r api.JobResponse
	return r.Job, c.patiently(ctx, http.MethodDelete, jobsPath(host)+"/"+url.PathEscape(id), nil, &r)
}

func jobsPath(host string) string { return "/v1/hosts/" + url.PathEscape(host) + "/jobs" }

// patiently sends a request that may take as long as a far host and its scheduler do.
func (c *Client) patiently(ctx context.Context, method, path string, in, out any) error {
	patient := &Client{paths: c.paths, http: &http.Client{Transport: transport(c.paths, 0)}}
	return patient.call(ctx, method, path, in, out)
}
