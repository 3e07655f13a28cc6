package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/tunnel"
)

// guestHouse serves SSH to a client whose channels go to a host.
type guestHouse struct {
	agent *Agent
	host  *tunnel.Host
	key   ssh.Signer
}

func (a *Agent) gatewayStream(h *tunnel.Host) (farSide, error) {
	key, err := gateway.HostKey(a.opt.Paths.Gateway())
	if err != nil {
		return nil, fmt.Errorf("gateway key: %w", err)
	}
	return guestHouse{agent: a, host: h, key: key}, nil
}

func (g guestHouse) serve(ctx context.Context, near nearSide) {
	o := gateway.Options{Name: g.host.Status().Alias, Host: g.host, Key: g.key, Log: g.agent.log}
	if err := gateway.Serve(ctx, near, o); err != nil {
		g.agent.log.Debug("gateway client disconnected", "host", o.Name, "err", err)
	}
}

// Close has nothing to end: the channels of a guest end with its stream.
func (guestHouse) Close() error { return nil }

// sftpWait is how long a copy waits for one of the host's sessions.
const (
	sftpWait  = time.Minute
	spareWait = 2 * time.Second // for one that it can do without
)

// sftpStream is the host's file server, in a session of its own.
func sftpStream(ctx context.Context, h *tunnel.Host, spare bool) (farSide, error) {
	wait := sftpWait
	if spare {
		wait = spareWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ch, requests, err := h.OpenChannel(ctx, "session", nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &api.Error{
			Code: api.CodeTimeout, Message: fmt.Sprintf("all sessions that %s allows at once are in use", h.Status().Alias), Err: err,
			Hint: "close a shell or wait for a copy to end",
		}
	case err != nil:
		return nil, err
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	payload := ssh.Marshal(struct{ Name string }{"sftp"})
	ok, err := ch.SendRequest("subsystem", true, payload)
	if err == nil && !ok {
		err = &api.Error{Code: api.CodeFailed, Message: h.Status().Alias + " has no file server (SFTP)"}
	}
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	// Hidden is the channel's CloseWrite: when the client is gone, so must be the
	// session, which the host counts.
	return dialled{struct{ io.ReadWriteCloser }{ch}}, nil
}
