package forward

import (
	"context"
	"errors"
	"net"
)

// DialHere dials an address on this computer. The name localhost is never looked up:
// the hosts file of a minimal container may lack it.
func DialHere(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "localhost" {
		return d.DialContext(ctx, network, address)
	}
	var errs []error
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(loopback, port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
