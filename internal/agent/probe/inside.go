package probe

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Machine is where programs run inside a job.
type Machine interface {
	OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error)
}

// runInside runs a command inside a job that does nothing.
func runInside(ctx context.Context, job Job) error {
	node, err := job.Machine(ctx)
	if err != nil {
		return err
	}
	ch, requests, err := node.OpenChannel(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ch.Close() })()
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{"true"}))
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
				return fmt.Errorf("the command `true` ended with status %d", exit.Status)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
