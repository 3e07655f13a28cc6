package client

import (
	"context"
	"net/http"
	"time"

	"tunctl/internal/api"
)

// remoteTimeout bounds a request whose answer a far host has to give: two commands
// there, and their turn.
const remoteTimeout = 2 * time.Minute

// Extend asks for more time for a session's job.
func (c *Client) Extend(ctx context.Context, session string, by time.Duration) (api.Job, error) {
	var r api.ExtendResponse
	err := c.callRemote(ctx, "/v1/extend", api.ExtendRequest{Session: session, Seconds: int64(by / time.Second)}, &r)
	return r.Job, err
}

// Refresh has the schedulers of connected hosts asked now, and returns the status
// after that. With a session, only its host's.
func (c *Client) Refresh(ctx context.Context, session string) (api.Status, error) {
	var st api.Status
	return st, c.callRemote(ctx, "/v1/refresh", api.RefreshRequest{Session: session}, &st)
}

// Check has the agent examine a host, or a session and its host, over the connection
// there is. It never connects.
func (c *Client) Check(ctx context.Context, req api.CheckRequest) ([]api.Check, error) {
	var r api.CheckResponse
	return r.Checks, c.callRemote(ctx, "/v1/check", req, &r)
}

// callRemote posts a request that may take as long as a far host does.
func (c *Client) callRemote(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	patient := &Client{paths: c.paths, http: &http.Client{Transport: transport(c.paths, 0)}}
	return patient.call(ctx, http.MethodPost, path, in, out)
}
