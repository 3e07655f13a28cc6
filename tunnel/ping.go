package tunnel

import (
	"context"
	"errors"
	"time"
)

// errMute says that a connection can be asked nothing: an ssh of its own holds it.
var errMute = errors.New("a connection that the ssh program holds cannot be measured")

// Ping asks a connected host for a sign of life and returns how long that took: the
// round trip and whatever queues on the way are filled by others.
func (h *Host) Ping(ctx context.Context) (time.Duration, error) {
	c, err := h.current()
	if err != nil {
		return 0, err
	}
	if c.mute {
		return 0, errMute
	}
	answered := make(chan error, 1)
	start := time.Now()
	started := c.spawn(func() {
		_, _, err := c.client.SendRequest(keepaliveRequest, true, nil)
		answered <- err
	})
	if !started {
		return 0, c.gone()
	}
	select {
	case err := <-answered:
		return time.Since(start), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
