// Package client is the typed client of the agent's local API: HTTP and JSON on a
// unix socket. It starts the agent when a command needs one. It knows nothing of
// SSH, and nothing of terminals or desktops.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

// answerTimeout is how long the agent may take to respond to what it can answer alone.
const answerTimeout = 10 * time.Second

// Client talks to the agent of one TUNCTL_HOME.
type Client struct {
	paths  home.Paths
	http   *http.Client
	name   string        // see api.ClientHeader
	answer time.Duration // how long the agent may take to respond
	// slow says that an answer may take as long as a far host does. Meanwhile the agent
	// is asked whether it still responds.
	slow bool
}

// New returns a client; it dials nothing yet.
func New(paths home.Paths) *Client {
	return newClient(paths, answerTimeout)
}

func newClient(paths home.Paths, answer time.Duration) *Client {
	return &Client{paths: paths, http: &http.Client{Transport: transport(paths, answer)}, name: rand.Text(), answer: answer}
}

// transport dials the agent's socket; an answer must begin within limit, 0 for none.
func transport(paths home.Paths, limit time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, paths) },
		ResponseHeaderTimeout: limit,
		DisableKeepAlives:     true, // a client is short-lived; an idle connection would hold up the agent's drain
	}
}

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

// stream reads a JSON value per line.
func stream[T any](ctx context.Context, c *Client, path string, each func(T)) error {
	if c.slow {
		var end func()
		ctx, end = c.whileResponding(ctx)
		defer end()
	}
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	dec := json.NewDecoder(res.Body)
	for {
		var v T
		switch err := dec.Decode(&v); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &api.Error{Code: api.CodeAgent, Message: "the agent has stopped", Err: err}
		}
		each(v)
	}
}

// patient is c for answers that take as long as a far host and its scheduler do.
func (c *Client) patient() *Client {
	return &Client{paths: c.paths, http: &http.Client{Transport: transport(c.paths, 0)}, name: c.name, answer: c.answer, slow: true}
}

// ask sends one request and returns its answer.
func ask[Out any](ctx context.Context, c *Client, method, path string, in any) (Out, error) {
	var out Out
	err := c.call(ctx, method, path, in, &out)
	return out, err
}

// call sends one request and decodes its answer into out unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	if c.slow {
		var end func()
		ctx, end = c.whileResponding(ctx)
		defer end()
	}
	res, err := c.do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return &api.Error{Code: api.CodeAgent, Message: fmt.Sprintf("cannot read the agent's answer: %v", err), Err: err}
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	// The host is a word, not a name: the agent refuses what a browser would send.
	req, err := http.NewRequestWithContext(ctx, method, "http://tunctl"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(api.ClientHeader, c.name)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	return nil, refusal(res)
}

// refusal is the error that the agent answered with.
func refusal(res *http.Response) error {
	var e api.Error
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e) != nil || e.Message == "" {
		return &api.Error{Code: api.CodeAgent, Message: "the agent answered with HTTP status " + res.Status}
	}
	return &e
}

// environment is what the agent may need of this process's environment.
func environment() api.Env {
	env := api.Env{}
	for _, name := range api.EnvNames {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}
