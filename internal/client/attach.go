package client

import (
	"context"
	"net/http"

	"tunctl/internal/api"
)

// Attach asks to bring up a session for a job that somebody started by hand. The
// host must be connected.
func (c *Client) Attach(ctx context.Context, req api.AttachRequest) (api.AttachResponse, error) {
	req.Env = Environment()
	var r api.AttachResponse
	return r, c.callRemote(ctx, "/v1/attach", req, &r)
}

// Quota asks what the host's site tells about balances and quotas. The host must be
// connected.
func (c *Client) Quota(ctx context.Context, host string) (api.QuotaResponse, error) {
	var r api.QuotaResponse
	return r, c.callRemote(ctx, "/v1/quota", api.QuotaRequest{Host: host}, &r)
}

// Reload has the agent read its config now, for who has just written it.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", struct{}{}, nil)
}
