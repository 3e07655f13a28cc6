package tunnel

import (
	"context"
	"errors"

	"golang.org/x/crypto/ssh"
)

// sharesConnections: the ssh program of Windows cannot.
const sharesConnections = false

// withListeners fails: the ssh program of Windows shares no connections.
func (*master) withListeners(context.Context, ssh.Conn) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	return nil, nil, nil, errors.ErrUnsupported
}

func (*attempt) attachMaster(context.Context) (*conn, error) { return nil, errors.ErrUnsupported }
