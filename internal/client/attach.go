package client

import (
	"context"
	"net/http"

	"tunctl/internal/api"
)

// Attach asks to bring up a session for a job that somebody started by hand. The
// host must be connected.
func (c *Client) Attach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	req.Env = environment()
	return askFar[api.AttachResponse](ctx, c, "/v1/attach", req)
}

// Quota asks what the host's site tells about balances and quotas. The host must be
// connected.
func (c *Client) Quota(ctx context.Context, host string) (api.QuotaResponse, error) {
	return askFar[api.QuotaResponse](ctx, c, "/v1/quota", api.QuotaRequest{Host: host})
}

// Reload has the agent read its config now, for who has just written it.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", struct{}{}, nil)
}
