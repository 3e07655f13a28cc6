package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tunctl/internal/api"
)

// Status returns what the agent knows.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return request[api.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Up starts a session and returns at once, as a click does. Its job may be submitted
// for an hour.
func (c *Client) Up(ctx context.Context, session string) (api.UpResponse, error) {
	return c.UpWaiting(ctx, api.UpRequest{Session: session}, "")
}

// UpWaiting is Up for a command that waits: the job may be submitted while WatchWaiting
// with the same waiter lasts, and for an hour at most.
func (c *Client) UpWaiting(ctx context.Context, req api.UpRequest, waiter string) (api.UpResponse, error) {
	req.Env = environment()
	path := "/v1/up"
	if waiter != "" {
		path += "?waiter=" + url.QueryEscape(waiter)
	}
	return request[api.UpResponse](ctx, c, http.MethodPost, path, req)
}

// Down stops sessions.
func (c *Client) Down(ctx context.Context, req api.DownRequest) (api.DownResponse, error) {
	return request[api.DownResponse](ctx, c.slowClient(), http.MethodPost, "/v1/down", req)
}

// Page returns the whole URL of a session's page, token included, and the password for its
// login page.
func (c *Client) Page(ctx context.Context, session string) (api.OpenResponse, error) {
	return request[api.OpenResponse](ctx, c, http.MethodPost, "/v1/sessions/"+url.PathEscape(session)+"/open", struct{}{})
}

// AssistantUp brings a session up for an assistant, once a person has approved that.
func (c *Client) AssistantUp(ctx context.Context, req api.AssistantRequest) (api.UpResponse, error) {
	req.Env = environment()
	return request[api.UpResponse](ctx, c.slowClient(), http.MethodPost, "/v1/assistant/up", req)
}

// AssistantDown takes a session down for an assistant, once a person has approved that.
func (c *Client) AssistantDown(ctx context.Context, req api.AssistantRequest) (api.DownResponse, error) {
	return request[api.DownResponse](ctx, c.slowClient(), http.MethodPost, "/v1/assistant/down", req)
}

// PageURL returns the whole URL of a session's page, token included.
func (c *Client) PageURL(ctx context.Context, session string) (string, error) {
	r, err := c.Page(ctx, session)
	return r.URL, err
}

// EndpointPage is Page for another page of the session's job, by the name of its endpoint.
// Its first use forwards it.
func (c *Client) EndpointPage(ctx context.Context, session, endpoint string) (api.OpenResponse, error) {
	return requestRemote[api.OpenResponse](ctx, c, "/v1/sessions/"+url.PathEscape(session)+"/endpoints/"+url.PathEscape(endpoint)+"/open", struct{}{})
}

// Login logs in to a host now.
func (c *Client) Login(ctx context.Context, host string) (api.Host, error) {
	return request[api.Host](ctx, c, http.MethodPost, "/v1/login", api.LoginRequest{Host: host, Env: environment()})
}

// Logout disconnects from a host.
func (c *Client) Logout(ctx context.Context, host string) error {
	return c.call(ctx, http.MethodPost, "/v1/logout", api.LoginRequest{Host: host}, nil)
}

// Answer answers a prompt.
func (c *Client) Answer(ctx context.Context, id string, a api.Answer) error {
	return c.call(ctx, http.MethodPost, "/v1/prompts/"+url.PathEscape(id), a, nil)
}

// Stop stops the agent. Jobs keep running.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/stop", struct{}{}, nil)
}

// Watch calls each for every event until ctx or the agent ends. The first event is the
// whole status.
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

// Log calls each for every chunk of the log of a session or a job.
func (c *Client) Log(ctx context.Context, q api.LogQuery, each func(api.LogChunk)) error {
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Secrets {
		v.Set("secrets", "1")
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	path := "/v1/sessions/" + url.PathEscape(q.Session)
	if q.Job != "" {
		path = jobsPath(q.Host) + "/" + url.PathEscape(q.Job)
	}
	return stream(ctx, c.slowClient(), path+"/log?"+v.Encode(), each)
}

// Forward starts forwards that are in no config, and returns at once.
func (c *Client) Forward(ctx context.Context, req api.ForwardRequest) (api.ForwardResponse, error) {
	req.Env = environment()
	return request[api.ForwardResponse](ctx, c, http.MethodPost, "/v1/forward", req)
}

// Attach starts a session for a job that somebody started by hand. The host must be
// connected.
func (c *Client) Attach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	req.Env = environment()
	return requestRemote[api.AttachResponse](ctx, c, "/v1/attach", req)
}

// Quota returns the balances and quotas that the host's site reports. The host must be
// connected.
func (c *Client) Quota(ctx context.Context, host string) (api.QuotaResponse, error) {
	return requestRemote[api.QuotaResponse](ctx, c, "/v1/quota", api.QuotaRequest{Host: host})
}

// FreshQuota is Quota by commands that run now, whatever is known.
func (c *Client) FreshQuota(ctx context.Context, host string) (api.QuotaResponse, error) {
	return requestRemote[api.QuotaResponse](ctx, c, "/v1/quota", api.QuotaRequest{Host: host, Refresh: true})
}

// Balances are the last known balances of all hosts. Nothing is asked of a host.
func (c *Client) Balances(ctx context.Context) ([]api.HostBalances, error) {
	return request[[]api.HostBalances](ctx, c, http.MethodGet, "/v1/balances", nil)
}

// History are the jobs that have ended, and their sums by week. Nothing is asked of a host.
func (c *Client) History(ctx context.Context) (api.HistoryResponse, error) {
	return request[api.HistoryResponse](ctx, c, http.MethodGet, "/v1/history", nil)
}

// Choices is what may be chosen for a session's next run.
func (c *Client) Choices(ctx context.Context, session string) (api.ChoicesResponse, error) {
	return request[api.ChoicesResponse](ctx, c, http.MethodGet, "/v1/sessions/"+url.PathEscape(session)+"/choices", nil)
}

// Preview calls each with what an up of a session would submit, once for each set of choices,
// as soon as it is known. The host must be connected. Nothing is submitted. Each set is a
// question to the scheduler, which keeps its distance to the last one.
func (c *Client) Preview(ctx context.Context, req api.PreviewRequest, each func(api.Preview)) error {
	return streamOf(ctx, c.slowClient(), http.MethodPost, "/v1/preview", req, each)
}

// Usage calls each with the use of the sessions' jobs, or of one session's: first with what
// is known of the last hour, then with each new measurement until ctx ends. While it runs,
// somebody looks, and the agent measures.
func (c *Client) Usage(ctx context.Context, session string, each func(api.Usage)) error {
	return stream(ctx, c, "/v1/usage?session="+url.QueryEscape(session), each)
}

// KnownUsage calls each with what is known of the use of a session's job in the last hour,
// without measuring.
func (c *Client) KnownUsage(ctx context.Context, session string, each func(api.Usage)) error {
	return stream(ctx, c, "/v1/usage?known=1&session="+url.QueryEscape(session), each)
}

// Reload makes the agent read its config now.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", struct{}{}, nil)
}

// Jobs lists the person's jobs on a host; with ended, those of the last day too.
func (c *Client) Jobs(ctx context.Context, host string, ended bool) ([]api.Job, error) {
	path := jobsPath(host)
	if ended {
		path += "?ended=1"
	}
	r, err := request[api.JobsResponse](ctx, c.slowClient(), http.MethodGet, path, nil)
	return r.Jobs, err
}

// LastJobs lists the jobs that a host's scheduler reported last, without a new query.
// An agent of an earlier version has no such list and returns an error.
func (c *Client) LastJobs(ctx context.Context, host string) ([]api.Job, error) {
	r, err := request[api.JobsResponse](ctx, c, http.MethodGet, "/v1/hosts/"+url.PathEscape(host)+"/last-jobs", nil)
	return r.Jobs, err
}

// Scheduler returns which scheduler a connected host has.
func (c *Client) Scheduler(ctx context.Context, host string) (string, error) {
	r, err := request[api.SchedulerResponse](ctx, c.slowClient(), http.MethodGet, "/v1/hosts/"+url.PathEscape(host)+"/scheduler", nil)
	return r.Scheduler, err
}

// Look finds out what a connected host has for a first session there. It takes at most
// about half a minute.
func (c *Client) Look(ctx context.Context, host string) (api.Look, error) {
	return requestRemote[api.Look](ctx, c, "/v1/hosts/"+url.PathEscape(host)+"/look", struct{}{})
}

// Submit submits a job. It returns when the scheduler has accepted the job, also if the
// link is lost meanwhile.
func (c *Client) Submit(ctx context.Context, host string, req api.SubmitRequest) (api.Job, error) {
	r, err := request[api.JobResponse](ctx, c.slowClient(), http.MethodPost, jobsPath(host), req)
	return r.Job, err
}

// Job returns all that the scheduler reports of one job.
func (c *Client) Job(ctx context.Context, host, id string) (api.Job, error) {
	r, err := request[api.JobResponse](ctx, c.slowClient(), http.MethodGet, jobsPath(host)+"/"+url.PathEscape(id), nil)
	return r.Job, err
}

// Cancel ends a job and returns its state before that.
func (c *Client) Cancel(ctx context.Context, host, id string) (api.Job, error) {
	r, err := request[api.JobResponse](ctx, c.slowClient(), http.MethodDelete, jobsPath(host)+"/"+url.PathEscape(id), nil)
	return r.Job, err
}

func jobsPath(host string) string { return "/v1/hosts/" + url.PathEscape(host) + "/jobs" }

// Extend requests more time for a session's job.
func (c *Client) Extend(ctx context.Context, session string, by time.Duration) (api.Job, error) {
	r, err := requestRemote[api.ExtendResponse](ctx, c, "/v1/extend", api.ExtendRequest{Session: session, Seconds: int64(by / time.Second)})
	return r.Job, err
}

// Refresh queries the schedulers of connected hosts now, and returns the status after
// that. With a session, it queries only its host.
func (c *Client) Refresh(ctx context.Context, session string) (api.Status, error) {
	return requestRemote[api.Status](ctx, c, "/v1/refresh", api.RefreshRequest{Session: session})
}

// Check examines a host, or a session and its host, over the existing connection. It
// never connects.
func (c *Client) Check(ctx context.Context, req api.CheckRequest) ([]api.Check, error) {
	r, err := requestRemote[api.CheckResponse](ctx, c, "/v1/check", req)
	return r.Checks, err
}
