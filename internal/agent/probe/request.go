package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// Once sends one real request to an endpoint through dialer. A listener that only
// accepts proves nothing: sshd accepts for a forward that it then forbids.
func Once(ctx context.Context, dialer forward.Dialer, ep api.Endpoint) error {
	if ep.TakesOneClient() {
		return nil // the probe would be that client, and a second one is refused
	}
	if ep.Scheme != "" && ep.Scheme != "http" && ep.Scheme != "https" {
		network, address := dialAddress(ep)
		conn, err := dialer.Dial(ctx, network, address)
		if err != nil {
			return DialError(err)
		}
		return conn.Close()
	}
	res, err := get(ctx, dialer, ep, "")
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	locked := res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusUnauthorized
	switch {
	case locked && ep.Token.IsZero():
		return ErrTokenUnknown
	case locked:
		return fmt.Errorf("the server refuses the token from the log (%s)", res.Status)
	case res.StatusCode == http.StatusNotFound && ep.App == "jupyter":
		return errPathUnknown
	case res.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("the server answers %s", res.Status)
	}
	return nil
}

// dialAddress is where an endpoint is dialled.
func dialAddress(ep api.Endpoint) (network, address string) {
	if ep.Socket != "" {
		return "unix", ep.Address()
	}
	return "tcp", ep.Address()
}

// get sends the request of a probe to an endpoint through dialer, or one to a path relative to
// it, over its own connection. The caller closes the body.
func get(ctx context.Context, dialer forward.Dialer, ep api.Endpoint, path string) (*http.Response, error) {
	req, err := probeRequest(ctx, ep)
	if err == nil && path != "" {
		req.URL, err = req.URL.Parse(path)
	}
	if err != nil {
		return nil, err
	}
	network, address := dialAddress(ep)
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.Dial(ctx, network, address) },
		DisableKeepAlives: true,
		// A notebook signs its own certificate; SSH protects the connection.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	res, err := transport.RoundTrip(req) // not a Client: a redirect is a response too
	if err != nil {
		return nil, DialError(err)
	}
	return res, nil
}

// ErrTokenUnknown says that a server answers and requires a token that is not known, or
// not yet: a log has the address before the token.
var ErrTokenUnknown = errors.New("the server requires a token, and the log does not contain one yet")

// errPathUnknown says that a Jupyter server answers, but not below the path that is
// known so far: what a job prints comes before what its server prints, and lacks the base URL.
var errPathUnknown = errors.New("the server uses another base path, and the log does not contain it yet")

// errNoListener says that the machine was reached, and that no server listens there.
var errNoListener = errors.New("nothing listens there")

// isIncomplete reports whether a server answers and only its token or path is missing.
func isIncomplete(err error) bool {
	return errors.Is(err, ErrTokenUnknown) || errors.Is(err, errPathUnknown)
}

// probeRequest asks Jupyter for its status, and any other server for the page that a
// user would open.
func probeRequest(ctx context.Context, ep api.Endpoint) (*http.Request, error) {
	u := ep.PageURL("localhost") // Jupyter checks the Host header
	if ep.App == "jupyter" {
		u.Path = jupyterBase(u.Path) + "api/status"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil && ep.App == "jupyter" && !ep.Token.IsZero() {
		req.Header.Set("Authorization", "token "+ep.Token.Reveal())
	}
	return req, err
}

// jupyterBase is the server's base URL within the path of one of its pages.
func jupyterBase(path string) string {
	for _, page := range []string{"lab", "tree", "notebooks", "login"} {
		if base, ok := strings.CutSuffix(strings.TrimSuffix(path, "/"), "/"+page); ok {
			return base + "/"
		}
	}
	return strings.TrimSuffix(path, "/") + "/"
}

// DialError explains a failed dial to the user.
func DialError(err error) error {
	switch {
	case errors.Is(err, api.ErrProhibited):
		return errors.New("the host does not allow forwarding to this address")
	case errors.Is(err, api.ErrRefused):
		return errNoListener
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no response within the time limit")
	}
	return err
}
