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
	"os"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/home"
)

const (
	// answerTimeout bounds a request that the agent can answer alone.
	answerTimeout = 10 * time.Second
	// remoteTimeout bounds a request that needs a host: two commands there, and the
	// wait for their turn.
	remoteTimeout = 2 * time.Minute
)

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

// askFar posts a request whose answer a far host has to give.
func askFar[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remoteTimeout, &api.Error{
		Code: api.CodeTimeout, Message: fmt.Sprintf("no answer from the host within %s", api.DurationText(remoteTimeout)),
		Hint: "the login node or its scheduler is slow; try again in a few minutes",
	})
	defer cancel()
	return ask[Out](ctx, c.patient(), http.MethodPost, path, in)
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
