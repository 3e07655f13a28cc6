// Package client is the typed client of the agent's local API: HTTP and JSON on a
// local socket. It starts the agent when a command needs one. It knows nothing of
// SSH, and nothing of terminals or desktops.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
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

// stream reads a JSON value per line.
func stream[T any](ctx context.Context, c *Client, path string, each func(T)) error {
	return streamOf(ctx, c, http.MethodGet, path, nil, each)
}

// streamOf is stream for any method, with a body unless in is nil.
func streamOf[T any](ctx context.Context, c *Client, method, path string, in any, each func(T)) error {
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
	dec := json.NewDecoder(res.Body)
	for {
		var v T
		switch err := dec.Decode(&v); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return api.Errorf(api.CodeAgent, "the agent has stopped").Because(err)
		}
		each(v)
	}
}

// slowClient is c for answers that take as long as a remote host and its scheduler do.
func (c *Client) slowClient() *Client {
	return &Client{paths: c.paths, http: &http.Client{Transport: transport(c.paths, 0)}, name: c.name, timeout: c.timeout, slow: true}
}

// request sends one request and returns its answer.
func request[Out any](ctx context.Context, c *Client, method, path string, in any) (Out, error) {
	var out Out
	err := c.call(ctx, method, path, in, &out)
	return out, err
}

// requestRemote posts a request that needs an answer of a remote host.
func requestRemote[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remoteTimeout, api.Errorf(api.CodeTimeout, "no answer from the host within %s",
		api.DurationText(remoteTimeout)).
		WithHint("the login node or its scheduler is slow; try again in a few minutes"))
	defer cancel()
	return request[Out](ctx, c.slowClient(), http.MethodPost, path, in)
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
		return api.Errorf(api.CodeAgent, "cannot read the agent's answer: %w", err)
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
	// "tunctl" is no host name: the agent rejects requests that a browser could send.
	req, err := http.NewRequestWithContext(ctx, method, "http://tunctl"+path, body)
	if err != nil {
		return nil, err
	}
	c.setHeaders(req)
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

// setHeaders says who sends a request, and which config file the user has chosen, if any.
func (c *Client) setHeaders(req *http.Request) {
	req.Header.Set(api.ClientHeader, c.name)
	if c.paths.Chosen {
		req.Header.Set(api.ConfigHeader, url.QueryEscape(c.paths.Config))
	}
}

// refusal is the error in the agent's response.
func refusal(res *http.Response) error {
	var e api.Error
	if json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&e) != nil || e.Message == "" {
		return api.Errorf(api.CodeAgent, "the agent answered with HTTP status %s", res.Status)
	}
	return &e
}

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
