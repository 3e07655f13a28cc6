package tunnel

import (
	"context"
	"log/slog"

	"golang.org/x/crypto/ssh"
)

// Link is what package node needs of a host, to get onto a compute node behind it.
type Link struct{ host *Host }

// Link is the way through the host, whatever its connection is at the moment.
func (h *Host) Link() Link { return Link{h} }

// Label is the host's name in messages.
func (l Link) Label() string { return l.host.label() }

// Limits are those of the host's pool.
func (l Link) Limits() *Limits { return &l.host.pool.o.Limits }

// Log is the host's log.
func (l Link) Log() *slog.Logger { return l.host.log }

// Changed is closed at the next change of the host's state: its connection may be another.
func (l Link) Changed() <-chan struct{} { return l.host.Changed() }

// Start starts a command on the host that carries a connection, and sends it its first
// line. Its error is a *failure.RouteError if the host carries no streams.
func (l Link) Start(ctx context.Context, command, line string) (*Stream, error) {
	c, err := l.host.current()
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, command, line)
}

// OpenChannel opens a channel on the host; see [Host.OpenChannel].
func (l Link) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return l.host.OpenChannel(ctx, kind, payload)
}

// Hop is our own SSH connection through the host to a node by one of its names, the
// likeliest first. It dials nothing.
func (l Link) Hop(names []string) *Hop { return newHop(l.host, names) }
