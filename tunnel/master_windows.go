package tunnel

import (
	"context"
	"errors"
	"net"

	"golang.org/x/crypto/ssh"
)

// sharesConnections: the ssh program of Windows cannot.
const sharesConnections = false

func dialControl(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }

// withListeners fails: the ssh program of Windows shares no connections.
func (*master) withListeners(context.Context, ssh.Conn) (ssh.Conn, <-chan ssh.NewChannel, error) {
	return nil, nil, errors.ErrUnsupported
}
