package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"tunctl/internal/api"
)

// Up starts a session and returns at once.
func (c *Client) Up(ctx context.Context, req api.UpRequest) (api.UpResponse, error) {
	req.Env = environment()
	return call(ctx, c, api.CallUp, req)
}

// Down stops sessions.
func (c *Client) Down(ctx context.Context, req api.DownRequest) (api.DownResponse, error) {
	if req.Cancel {
		req.Env = environment()
	}
	return call(ctx, c.slowClient(), api.CallDown, req)
}

// AssistantUp brings a session up for an assistant, once the user has approved that.
func (c *Client) AssistantUp(ctx context.Context, req api.AssistantRequest) (api.UpResponse, error) {
	req.Env = environment()
	return call(ctx, c.slowClient(), api.CallAssistantUp, req)
}

// AssistantDown takes a session down for an assistant, once the user has approved that.
func (c *Client) AssistantDown(ctx context.Context, req api.AssistantRequest) (api.DownResponse, error) {
	return call(ctx, c.slowClient(), api.CallAssistantDown, req)
}

// Page returns the whole URL of a session's page, token included, and the password for its
// login page.
func (c *Client) Page(ctx context.Context, session string) (api.OpenResponse, error) {
	return call(ctx, c, api.CallOpen, api.None{}, session)
}

// EndpointPage is Page for another page of the session's job, by the name of its endpoint.
// Its first use forwards it.
func (c *Client) EndpointPage(ctx context.Context, session, endpoint string) (api.OpenResponse, error) {
	return callRemote(ctx, c, api.CallOpenEndpoint, api.None{}, session, endpoint)
}

// Login logs in to a host now.
func (c *Client) Login(ctx context.Context, host string) (api.Host, error) {
	return call(ctx, c, api.CallLogin, api.LoginRequest{Host: host, Env: environment()})
}

// Logout disconnects from a host.
func (c *Client) Logout(ctx context.Context, host string) error {
	_, err := call(ctx, c, api.CallLogout, api.LoginRequest{Host: host})
	return err
}

// Answer answers a prompt.
func (c *Client) Answer(ctx context.Context, id string, a api.Answer) error {
	_, err := call(ctx, c, api.CallAnswer, a, id)
	return err
}

// Watch calls each for every event until ctx or the agent ends. The first event is the
// whole status. A command that waits for a session has a name as waiter; see api.UpRequest.
func (c *Client) Watch(ctx context.Context, answers api.Answers, waiter string, each func(api.Event)) error {
	return stream(ctx, c, api.CallWatch, url.Values{"answers": {string(answers)}, "waiter": {waiter}}, each)
}

// Log calls each for every chunk of the log of a session or a job.
func (c *Client) Log(ctx context.Context, q api.LogQuery, each func(api.LogChunk)) error {
	v := url.Values{"follow": {flag(q.Follow)}, "secrets": {flag(q.Secrets)}, "tail": {strconv.Itoa(q.Tail)}}
	if q.Job != "" {
		return stream(ctx, c.slowClient(), api.CallJobLog, v, each, q.Host, q.Job)
	}
	return stream(ctx, c.slowClient(), api.CallLog, v, each, q.Session)
}

// flag is a switch in a query; what is empty is off.
func flag(on bool) string {
	if on {
		return "1"
	}
	return ""
}

// Forward starts forwards that are in no config, and returns at once.
func (c *Client) Forward(ctx context.Context, req api.ForwardRequest) (api.ForwardResponse, error) {
	req.Env = environment()
	return call(ctx, c, api.CallForward, req)
}

// Attach starts a session for a job that somebody started by hand. The host must be
// connected.
func (c *Client) Attach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	req.Env = environment()
	return callRemote(ctx, c, api.CallAttach, req)
}

// Quota returns the balances and quotas that the host's site reports. The host must be
// connected.
func (c *Client) Quota(ctx context.Context, req api.QuotaRequest) (api.QuotaResponse, error) {
	return callRemote(ctx, c, api.CallQuota, req)
}

// Balances are the last known balances of all hosts. Nothing is asked of a host.
func (c *Client) Balances(ctx context.Context) ([]api.HostBalances, error) {
	return call(ctx, c, api.CallBalances, api.None{})
}

// History are the jobs that have ended, and their sums by week. Nothing is asked of a host.
func (c *Client) History(ctx context.Context) (api.HistoryResponse, error) {
	return call(ctx, c, api.CallHistory, api.None{})
}

// Choices is what may be chosen for a session's next run. Nothing is asked of a host.
func (c *Client) Choices(ctx context.Context, session string) (api.ChoicesResponse, error) {
	return call(ctx, c, api.CallChoices, url.Values{}, session)
}

// ChoicesAndScript is Choices with what the session's own script has, if its host is connected.
func (c *Client) ChoicesAndScript(ctx context.Context, session string) (api.ChoicesResponse, error) {
	return call(ctx, c, api.CallChoices, url.Values{"script": {"1"}}, session)
}

// Preview calls each with what an up of a session would submit, once for each set of choices,
// as soon as it is known. The host must be connected. Nothing is submitted. Each set is a
// question to the scheduler, which keeps its distance to the last one.
func (c *Client) Preview(ctx context.Context, req api.PreviewRequest, each func(api.Preview)) error {
	return stream(ctx, c.slowClient(), api.CallPreview, req, each)
}

// Usage calls each with the use of the sessions' jobs, or of one session's: first with what
// is known of the last hour, then with each new measurement until ctx ends. While it runs,
// somebody looks, and the agent measures. With known it ends after the first part, and
// nothing is measured.
func (c *Client) Usage(ctx context.Context, session string, known bool, each func(api.Usage)) error {
	return stream(ctx, c, api.CallUsage, url.Values{"session": {session}, "known": {flag(known)}}, each)
}

// Reload makes the agent read its config now.
func (c *Client) Reload(ctx context.Context) error {
	_, err := call(ctx, c, api.CallReload, api.None{})
	return err
}

// Jobs lists the user's jobs on a host; with ended, those of the last day too.
func (c *Client) Jobs(ctx context.Context, host string, ended bool) (api.JobsResponse, error) {
	return call(ctx, c.slowClient(), api.CallJobs, url.Values{"ended": {flag(ended)}}, host)
}

// LastJobs lists the jobs that a host's scheduler reported last, without a new query.
func (c *Client) LastJobs(ctx context.Context, host string) ([]api.Job, error) {
	r, err := call(ctx, c, api.CallLastJobs, api.None{}, host)
	return r.Jobs, err
}

// HostJobs are the jobs on one host, as its scheduler reported them last.
type HostJobs struct {
	Host string    `json:"host"`
	Jobs []api.Job `json:"jobs"`
}

// LastJobsOf is LastJobs of several hosts.
func (c *Client) LastJobsOf(ctx context.Context, hosts []string) ([]HostJobs, error) {
	all := make([]HostJobs, 0, len(hosts))
	for _, host := range hosts {
		jobs, err := c.LastJobs(ctx, host)
		if err != nil {
			return nil, err
		}
		all = append(all, HostJobs{host, append([]api.Job{}, jobs...)}) // [] if there are none
	}
	return all, nil
}

// Scheduler returns which scheduler a connected host has.
func (c *Client) Scheduler(ctx context.Context, host string) (string, error) {
	r, err := call(ctx, c.slowClient(), api.CallScheduler, api.None{}, host)
	return r.Scheduler, err
}

// Look finds out what a connected host has for a first session there. It takes at most
// about half a minute.
func (c *Client) Look(ctx context.Context, host string) (api.Look, error) {
	return callRemote(ctx, c, api.CallLook, api.None{}, host)
}

// Submit submits a job. It returns when the scheduler has accepted the job, also if the
// link is lost meanwhile.
func (c *Client) Submit(ctx context.Context, host string, req api.SubmitRequest) (api.Job, error) {
	r, err := call(ctx, c.slowClient(), api.CallSubmit, req, host)
	return r.Job, err
}

// Job returns all that the scheduler reports of one job.
func (c *Client) Job(ctx context.Context, host, id string) (api.Job, error) {
	r, err := call(ctx, c.slowClient(), api.CallJob, api.None{}, host, id)
	return r.Job, err
}

// Cancel ends a job and returns its state before that.
func (c *Client) Cancel(ctx context.Context, host, id string) (api.Job, error) {
	r, err := call(ctx, c.slowClient(), api.CallCancel, api.None{}, host, id)
	return r.Job, err
}

// Extend requests more time for a session's job.
func (c *Client) Extend(ctx context.Context, session string, by time.Duration) (api.Job, error) {
	r, err := callRemote(ctx, c, api.CallExtend, api.ExtendRequest{Session: session, Seconds: int64(by / time.Second)})
	return r.Job, err
}

// Refresh queries the schedulers of connected hosts now, and returns the status after
// that. With a session, it queries only its host.
func (c *Client) Refresh(ctx context.Context, session string) (api.Status, error) {
	return callRemote(ctx, c, api.CallRefresh, api.RefreshRequest{Session: session})
}

// Check examines a host, or a session and its host, over the existing connection. It
// never connects.
func (c *Client) Check(ctx context.Context, req api.CheckRequest) ([]api.Check, error) {
	r, err := callRemote(ctx, c, api.CallCheck, req)
	return r.Checks, err
}
