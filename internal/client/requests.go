package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"tunctl/internal/api"
)

// Status returns what the agent knows.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return ask[api.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Up asks to bring a session up and returns at once, as a click does: for an hour, its
// job may be submitted.
func (c *Client) Up(ctx context.Context, session string) (api.UpResponse, error) {
	return c.UpWaiting(ctx, api.UpRequest{Session: session}, "")
}

// UpWaiting asks the same for a command that waits: its job may be submitted while
// WatchWaiting with the same waiter lasts, and for an hour at most.
func (c *Client) UpWaiting(ctx context.Context, req api.UpRequest, waiter string) (api.UpResponse, error) {
	req.Env = environment()
	path := "/v1/up"
	if waiter != "" {
		path += "?waiter=" + url.QueryEscape(waiter)
	}
	return ask[api.UpResponse](ctx, c, http.MethodPost, path, req)
}

// Down takes sessions down.
func (c *Client) Down(ctx context.Context, req api.DownRequest) (api.DownResponse, error) {
	return ask[api.DownResponse](ctx, c.patient(), http.MethodPost, "/v1/down", req)
}

// PageURL returns the whole URL of a session's page, token included.
func (c *Client) PageURL(ctx context.Context, session string) (string, error) {
	r, err := ask[api.OpenResponse](ctx, c, http.MethodPost, "/v1/sessions/"+url.PathEscape(session)+"/open", struct{}{})
	return r.URL, err
}

// Login asks to log in to a host now.
func (c *Client) Login(ctx context.Context, host string) (api.Host, error) {
	return ask[api.Host](ctx, c, http.MethodPost, "/v1/login", api.LoginRequest{Host: host, Env: environment()})
}

// Logout disconnects from a host.
func (c *Client) Logout(ctx context.Context, host string) error {
	return c.call(ctx, http.MethodPost, "/v1/logout", api.LoginRequest{Host: host}, nil)
}

// Answer answers a prompt.
func (c *Client) Answer(ctx context.Context, id string, a api.Answer) error {
	return c.call(ctx, http.MethodPost, "/v1/prompts/"+url.PathEscape(id), a, nil)
}

// Stop asks the agent to end. Jobs run on.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/stop", struct{}{}, nil)
}

// Watch calls each for every event until ctx ends or the agent goes; the first
// event is the whole status.
func (c *Client) Watch(ctx context.Context, answers api.Answers, each func(api.Event)) error {
	return c.WatchWaiting(ctx, answers, "", each)
}

// WatchWaiting is Watch for a command that waits for a session.
func (c *Client) WatchWaiting(ctx context.Context, answers api.Answers, waiter string, each func(api.Event)) error {
	q := url.Values{"answers": {string(answers)}}
	if waiter != "" {
		q.Set("waiter", waiter)
	}
	return stream(ctx, c, "/v1/watch?"+q.Encode(), each)
}

// Log calls each for every stretch of a session's or a job's log.
func (c *Client) Log(ctx context.Context, q api.LogQuery, each func(api.LogChunk)) error {
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Secrets {
		v.Set("secrets", "1")
	}
	path := "/v1/sessions/" + url.PathEscape(q.Session)
	if q.Job != "" {
		path = jobsPath(q.Host) + "/" + url.PathEscape(q.Job)
	}
	return stream(ctx, c.patient(), path+"/log?"+v.Encode(), each)
}

// Forward asks for forwards that are in no config, and returns at once.
func (c *Client) Forward(ctx context.Context, req api.ForwardRequest) (api.UpResponse, error) {
	req.Env = environment()
	return ask[api.UpResponse](ctx, c, http.MethodPost, "/v1/forward", req)
}

// Attach asks to bring up a session for a job that somebody started by hand. The
// host must be connected.
func (c *Client) Attach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	req.Env = environment()
	return askFar[api.AttachResponse](ctx, c, "/v1/attach", req)
}

// Quota asks what the host's site tells about balances and quotas. The host must be
// connected.
func (c *Client) Quota(ctx context.Context, host string) (api.QuotaResponse, error) {
	return askFar[api.QuotaResponse](ctx, c, "/v1/quota", api.QuotaRequest{Host: host})
}

// Reload has the agent read its config now, for who has just written it.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", struct{}{}, nil)
}

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

// Extend asks for more time for a session's job.
func (c *Client) Extend(ctx context.Context, session string, by time.Duration) (api.Job, error) {
	r, err := askFar[api.ExtendResponse](ctx, c, "/v1/extend", api.ExtendRequest{Session: session, Seconds: int64(by / time.Second)})
	return r.Job, err
}

// Refresh has the schedulers of connected hosts asked now, and returns the status
// after that. With a session, only its host's.
func (c *Client) Refresh(ctx context.Context, session string) (api.Status, error) {
	return askFar[api.Status](ctx, c, "/v1/refresh", api.RefreshRequest{Session: session})
}

// Check has the agent examine a host, or a session and its host, over the connection
// there is. It never connects.
func (c *Client) Check(ctx context.Context, req api.CheckRequest) ([]api.Check, error) {
	r, err := askFar[api.CheckResponse](ctx, c, "/v1/check", req)
	return r.Checks, err
}

// Ping returns how long a connected host takes to answer now. It never connects.
func (c *Client) Ping(ctx context.Context, host string) (time.Duration, error) {
	r, err := askFar[api.PingResponse](ctx, c, "/v1/ping", api.PingRequest{Host: host})
	return time.Duration(r.RTTMs * float64(time.Millisecond)), err
}
