// Package freeport listens on a port of both loopback addresses, and closes TCP listeners so that their ports
// are free at once.
package freeport

import (
	"context"
	"net"
	"strconv"
)

// Loopback listens on a port of 127.0.0.1 and of ::1: a browser may take either for a name. With port 0 the system
// picks one. v6 is nil where that is not possible; err is that of v4.
func Loopback(ctx context.Context, port int) (v4, v6 net.Listener, err error) {
	const picks = 5
	for try := 1; ; try++ {
		if v4, err = listen(ctx, "127.0.0.1", port); err != nil {
			return nil, nil, err
		}
		v6, err = listen(ctx, "::1", v4.Addr().(*net.TCPAddr).Port)
		if err == nil || port != 0 || try == picks || !HasIPv6(ctx) {
			return v4, v6, nil
		}
		_ = Close(v4) // the system picked a port that is in use on ::1: pick again
	}
}

// HasIPv6 reports whether this computer has the other loopback address.
func HasIPv6(ctx context.Context) bool {
	l, err := listen(ctx, "::1", 0)
	return err == nil && Close(l) == nil
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// Close closes a listener whose port is to be used again. A program that is just being
// started has a copy of every open socket until it runs, a few milliseconds on a busy
// machine: with the copy of a closed listener the port would stay in use, and accept
// connections that nobody serves.
func Close(l net.Listener) error {
	if tcp, ok := l.(*net.TCPListener); ok {
		stopListening(tcp)
	}
	return l.Close()
}
