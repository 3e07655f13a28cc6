package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"tunctl/internal/api"
)

// remoteTimeout bounds a request whose answer a far host has to give: two commands
// there, and their turn.
const remoteTimeout = 2 * time.Minute

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

// askFar posts a request whose answer a far host has to give.
func askFar[Out any](ctx context.Context, c *Client, path string, in any) (Out, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, remoteTimeout, &api.Error{
		Code: api.CodeTimeout, Message: fmt.Sprintf("no answer from the host within %s", api.DurationText(remoteTimeout)),
		Hint: "the login node or its scheduler is slow; try again in a few minutes",
	})
	defer cancel()
	return ask[Out](ctx, c.patient(), http.MethodPost, path, in)
}
