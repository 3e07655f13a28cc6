package step

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"tunctl/internal/api"
)

// Dial connects to an address as the node sees it; network is "tcp" or "unix". The
// connection has CloseWrite and no deadlines. Errors wrap api.ErrRefused if nothing
// listens there.
func (c *Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var request openRequest
	switch network {
	case "unix":
		request = openRequest{Kind: "unix", Path: []byte(address)}
	case "tcp":
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q: not a port", address)
		}
		request = openRequest{Kind: "tcp", Host: host, Port: uint32(n)}
	default:
		return nil, net.UnknownNetworkError(network)
	}
	ch, err := c.open(ctx, false, request)
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fmt.Errorf("%w to %s: %s", api.ErrRefused, address, refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return &netConn{ch, addr{network, address}}, nil
}

// netConn is a channel as a net.Conn.
type netConn struct {
	*channel
	remote addr
}

type addr struct{ network, address string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.address }

// LocalAddr is not known.
func (c *netConn) LocalAddr() net.Addr { return addr{c.remote.network, ""} }

// RemoteAddr is the address as it was dialed.
func (c *netConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is not supported, nor are the other two.
func (c *netConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *netConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *netConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
