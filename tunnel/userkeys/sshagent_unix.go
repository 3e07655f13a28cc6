//go:build !windows

package userkeys

import (
	"context"
	"fmt"
	"net"
)

func dialAgentSocket(ctx context.Context, socket string) (net.Conn, error) {
	if socket == "" {
		return nil, errNoAgent
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("the ssh-agent does not respond: %w", err)
	}
	return conn, nil
}
