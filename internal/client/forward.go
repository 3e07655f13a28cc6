package client

import (
	"context"
	"net/http"

	"tunctl/internal/api"
)

// Forward asks for forwards that are in no config, and returns at once.
func (c *Client) Forward(ctx context.Context, req api.ForwardRequest) (api.UpResponse, error) {
	req.Env = environment()
	return ask[api.UpResponse](ctx, c, http.MethodPost, "/v1/forward", req)
}
