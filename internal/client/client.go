// Package client is the typed client of the agent's local API: HTTP and JSON on a
// local socket. It starts the agent when a command needs one. It knows nothing of
// SSH, and nothing of terminals or desktops.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

const (
	// responseTimeout bounds a request that the agent can answer alone.
	responseTimeout = 10 * time.Second
	// remoteTimeout bounds a request that needs a host: two commands there, and the
	// wait for their turn.
	remoteTimeout = 2 * time.Minute
)

// Client talks to the agent of one TUNCTL_HOME.
type Client struct {
	paths   home.Paths
	http    *http.Client
	name    string        // see api.ClientHeader
	timeout time.Duration // for the agent to respond
	// slow says that an answer may take as long as a remote host does. Meanwhile a
	// second request checks that the agent still responds.
	slow bool
}

// New returns a client; it dials nothing yet.
func New(paths home.Paths) *Client { return newClient(paths, responseTimeout) }

func newClient(paths home.Paths, timeout time.Duration) *Client {
	return &Client{paths: paths, http: &http.Client{Transport: transport(paths, timeout)}, name: rand.Text(), timeout: timeout}
}

// transport dials the agent's socket. An answer must begin within timeout, 0 for none.
func transport(paths home.Paths, timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, paths) },
		ResponseHeaderTimeout: timeout,
		DisableKeepAlives:     true, // a client is short-lived; an idle connection would hold up the agent's drain
	}
}

// slowClient is c for answers that take as long as a remote host and its scheduler do.
func (c *Client) slowClient() *Client {
	return &Client{paths: c.paths, http: &http.Client{Transport: transport(c.paths, 0)}, name: c.name, timeout: c.timeout, slow: true}
}

// call sends the request of a call and returns its answer; at are the values of its path.
func call[In, Out any](ctx context.Context, c *Client, to api.Call[In, Out], in In, at ...string) (Out, error) {
	var out Out
	method, path := to.Request(at...)
	err := c.exchange(ctx, method, path, in, func(_ context.Context, answer *json.Decoder) error {
		if err := answer.Decode(&out); err != nil {
			return api.Errorf(api.CodeAgent, "cannot read the agent's answer: %w", err).WithHint("if the agent is another version: %s", restartHint)
		}
		return nil
	})
	return out, err
}

// callRemote is call for what needs an answer of a remote host.
func callRemote[In, Out any](ctx context.Context, c *Client, to api.Call[In, Out], in In, at ...string) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remoteTimeout, api.Errorf(api.CodeTimeout, "no answer from the host within %s",
		api.DurationText(remoteTimeout)).
		WithHint("the login node or its scheduler is slow; try again in a few minutes"))
	defer cancel()
	return call(ctx, c.slowClient(), to, in, at...)
}

// stream is call for one whose answer is a value per line.
func stream[In, Out any](ctx context.Context, c *Client, to api.Call[In, Out], in In, each func(Out), at ...string) error {
	method, path := to.Request(at...)
	return c.exchange(ctx, method, path, in, func(ctx context.Context, answer *json.Decoder) error {
		for {
			var v Out
			switch err := answer.Decode(&v); {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return api.Errorf(api.CodeAgent, "the agent has stopped").Because(err)
			}
			each(v)
		}
	})
}

// exchange sends a request, and has read take the answer.
func (c *Client) exchange(ctx context.Context, method, path string, in any, read func(context.Context, *json.Decoder) error) error {
	if c.slow {
		var end func()
		ctx, end = c.whileResponding(ctx)
		defer end()
	}
	req, err := c.newRequest(ctx, method, path, in)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return refusal(res)
	}
	return read(ctx, json.NewDecoder(res.Body))
}

// newRequest makes a request that says who sends it, and which config file the user has chosen, if any.
func (c *Client) newRequest(ctx context.Context, method, path string, in any) (*http.Request, error) {
	var body io.Reader
	switch in := in.(type) {
	case api.None:
	case url.Values:
		maps.DeleteFunc(in, func(_ string, values []string) bool { return strings.Join(values, "") == "" }) // what is not asked for
		path += "?" + in.Encode()
	default:
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	// "tunctl" is no host name: the agent rejects requests that a browser could send.
	req, err := http.NewRequestWithContext(ctx, method, "http://tunctl"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(api.ClientHeader, c.name)
	if c.paths.Chosen {
		req.Header.Set(api.ConfigHeader, url.QueryEscape(c.paths.Config))
	}
	return req, nil
}

// refusal is the error in the agent's response. An agent of another version may not know the request
// or a field of it, which encoding/json says by its text alone.
func refusal(res *http.Response) error {
	var e api.Error
	said := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e) == nil && e.Message != ""
	if said && !strings.Contains(e.Message, "json: unknown field") {
		return &e
	}
	why := api.Errorf(api.CodeAgent, "the agent answered with HTTP status %s", res.Status)
	if said || res.StatusCode == http.StatusNotFound {
		why.Message = "the running agent is another version of tunctl, which does not support this request: " + cmp.Or(e.Message, res.Status)
		why.Hint = restartHint
	}
	return why
}

const restartHint = "`tunctl agent restart` starts this version; jobs keep running"

// environment is the part of this process's environment that the agent may need.
func environment() api.Env {
	env := api.Env{}
	for _, name := range api.EnvNames {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

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

// EndJobs ends jobs, and calls each after every one. It continues if ctx ends meanwhile.
func (c *Client) EndJobs(ctx context.Context, jobs []api.EndJob, each func(api.EndJobsProgress)) error {
	return stream(ctx, c.slowClient(), api.CallEndJobs, api.EndJobsRequest{Jobs: jobs, Env: environment()}, each)
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

// ClientPage is the address of a session's page for other programs, with its local token: the one
// there is, or a new one.
func (c *Client) ClientPage(ctx context.Context, session string, renew bool) (api.OpenResponse, error) {
	return call(ctx, c, api.CallClientPage, api.ClientPageRequest{New: renew}, session)
}

// Kept says how many cells of a session that are over have output on its host.
func (c *Client) Kept(ctx context.Context, session string, cells int) error {
	_, err := call(ctx, c, api.CallKept, api.KeptRequest{Cells: cells}, session)
	return err
}

// Login logs in to a host now.
func (c *Client) Login(ctx context.Context, host string) (api.Host, error) {
	return call(ctx, c, api.CallLogin, api.LoginRequest{Host: host, Env: environment()})
}

// OfferKey reports whether to offer the user a key for a host. It does so once.
func (c *Client) OfferKey(ctx context.Context, host string) (bool, error) {
	offer, err := call(ctx, c, api.CallOfferKey, api.None{}, host)
	return offer.Offer, err
}

// InstallKey makes a key and has a host accept it; plain is one without a passphrase.
func (c *Client) InstallKey(ctx context.Context, host string, plain bool) (api.Key, error) {
	return callRemote(ctx, c, api.CallInstallKey, api.KeyRequest{Plain: plain, Env: environment()}, host)
}

// RemoveKey removes that key at both ends.
func (c *Client) RemoveKey(ctx context.Context, host string) (api.Key, error) {
	return callRemote(ctx, c, api.CallRemoveKey, api.None{}, host)
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
	v := url.Values{"follow": {flag(q.Follow)}, "secrets": {flag(q.Secrets)}, "lines": {flag(q.Lines)}, "whole": {flag(q.Whole)}, "tail": {strconv.Itoa(q.Tail)}}
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

// Choices is what may be chosen for a session's next run. Nothing is asked of a host, unless script is set: then
// it has what the session's own script has, if its host is connected.
func (c *Client) Choices(ctx context.Context, session string, script bool) (api.ChoicesResponse, error) {
	return call(ctx, c, api.CallChoices, url.Values{"script": {flag(script)}}, session)
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

// Free is what the user may use on a connected host now.
func (c *Client) Free(ctx context.Context, host string) (api.Free, error) {
	return callRemote(ctx, c, api.CallFree, api.None{}, host)
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
func (c *Client) Extend(ctx context.Context, req api.ExtendRequest) (api.Job, error) {
	r, err := callRemote(ctx, c, api.CallExtend, req)
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
