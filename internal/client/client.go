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
