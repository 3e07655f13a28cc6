// Package localsocket connects commands with the agent of the same user: by a unix socket
// or, on Windows, by a named pipe. Both ends make sure that the other is this user's: the
// listener serves nobody else, and a dialer sends nothing to what somebody else serves.
package localsocket

import (
	"errors"
	"net"
	"time"
)

// dialTimeout bounds a dial. An agent accepts at once.
const dialTimeout = 2 * time.Second

// ErrForeign is wrapped when another user serves the socket.
var ErrForeign = errors.New("another user serves this socket")

// Conn is a connection whose directions can be closed separately.
type Conn interface {
	net.Conn
	CloseWrite() error
}
