package tunnel

import (
	"context"
	"errors"

	"golang.org/x/crypto/ssh"
)

// OpenChannel opens a channel inside the job: a "session" is a shell, a command or a file
// server there, with the job's environment; "direct-tcpip" and
// "direct-streamlocal@openssh.com" are connections as the node sees them.
func (n *Node) OpenChannel(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	return nil, nil, errors.New("not implemented")
}
