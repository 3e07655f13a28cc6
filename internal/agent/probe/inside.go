package probe

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/tunnel/forward"
)

// runInside runs a command on a node inside a job, which must succeed.
func runInside(ctx context.Context, m gateway.Machine, command string) error {
	ch, requests, err := m.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !ok:
		return errors.New("no command may be run there")
	}
	return exitStatus(ctx, requests)
}

// onceOwned is Once for an address of a node that was not announced. What listens there may be
// another user's server, which must not get the token.
func onceOwned(ctx context.Context, m gateway.Machine, dialer forward.Dialer, ep api.Endpoint) error {
	if ep.Token.IsZero() && ep.Password.IsZero() {
		return Once(ctx, dialer, ep)
	}
	conn, err := dialer.Dial(ctx, "tcp", ep.Address())
	if err != nil {
		return DialError(err) // usually nothing listens there, and a command costs more
	}
	_ = conn.Close()
	if err := runInside(ctx, m, fmt.Sprintf(listensAsUser, ep.Port)); err != nil {
		return fmt.Errorf("%w: %w", errNotYours, err)
	}
	return Once(ctx, dialer, ep)
}

// errNotYours says that a server that was not announced may be another user's.
var errNotYours = errors.New("the server there may be another user's, so it is not sent the token")

// listensAsUser succeeds if all that listens on a port is the user's; 0A is the state of a listener.
// It avoids what shells read differently.
const listensAsUser = `cat /proc/self/status /proc/net/tcp /proc/net/tcp6 | awk '$1 == "Uid:" { me = $2 } ` +
	`$4 == "0A" && $2 ~ /:%04X$/ { found = 1; if ($8 - me) other = 1 } END { exit other + 1 - found }'`

// exitStatus waits for the end of a channel's command (RFC 4254, 6.10).
func exitStatus(ctx context.Context, requests <-chan *ssh.Request) error {
	for {
		select {
		case r, open := <-requests:
			var exit struct{ Status uint32 }
			switch {
			case !open:
				return errors.New("the command did not report how it ended")
			case r.Type != "exit-status":
			case ssh.Unmarshal(r.Payload, &exit) == nil && exit.Status == 0:
				return nil
			default:
				return fmt.Errorf("the command ended with status %d", exit.Status)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
