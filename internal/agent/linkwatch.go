package agent

import (
	"tunctl/internal/api"
	"tunctl/tunnel"
)

// linkWatch tells when a host's connection has come back.
type linkWatch struct {
	host    *tunnel.Host
	up      bool
	changed <-chan struct{} // closed at the host's next change
}

func newLinkWatch(h *tunnel.Host) *linkWatch {
	w := &linkWatch{host: h}
	w.back()
	return w
}

// back reports whether the link is there that was not there before.
func (w *linkWatch) back() bool {
	w.changed = w.host.Changed()
	was := w.up
	w.up = w.host.Status().State == api.HostUp
	return w.up && !was
}
