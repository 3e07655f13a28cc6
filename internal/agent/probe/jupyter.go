package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxBody bounds an answer of a Jupyter server.
const maxBody = 1 << 20

// jupyterTimeout bounds a question to a Jupyter server whether it is used.
const jupyterTimeout = 10 * time.Second

// LastUsed is when the Jupyter server at the route's end or one of its kernels was last
// used; zero: there is none. Both requests are such that the server does not take them for
// a use.
func (r *Route) LastUsed(ctx context.Context) (time.Time, error) {
	if r.Inside != nil || r.Endpoint.App != "jupyter" {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jupyterTimeout)
	defer cancel()
	var server struct {
		LastActivity time.Time `json:"last_activity"`
		Connections  int       `json:"connections"`
		Kernels      int       `json:"kernels"`
	}
	clock, err := r.jupyter(ctx, "api/status", &server)
	if err != nil {
		return time.Time{}, err
	}
	if server.Connections > 0 {
		return time.Now(), nil
	}
	if server.Kernels > 0 {
		var kernels []struct {
			State string `json:"execution_state"`
		}
		if _, err := r.jupyter(ctx, "api/kernels?no_track_activity=1", &kernels); err != nil {
			return time.Time{}, err
		}
		for _, k := range kernels {
			if k.State == "busy" {
				return time.Now(), nil
			}
		}
	}
	return time.Now().Add(-clock.Sub(server.LastActivity)), nil
}

// jupyter sends a request to the Jupyter server at the route's end, and returns what time
// it is there.
func (r *Route) jupyter(ctx context.Context, path string, into any) (clock time.Time, err error) {
	res, err := get(ctx, r.Dialer, r.Endpoint, "../"+path)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return time.Time{}, errors.New("the server answers " + res.Status)
	}
	if clock, err = http.ParseTime(res.Header.Get("Date")); err != nil {
		clock = time.Now()
	}
	return clock, json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(into)
}
