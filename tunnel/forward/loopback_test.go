package forward

import (
	"net"
	"testing"
)

func TestLocalhostIsReachedOnEitherLoopbackAddress(t *testing.T) {
	t.Parallel()
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			if loopback == "::1" && !hasIPv6Loopback() {
				continue
			}
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := DialHere(t.Context(), "tcp", net.JoinHostPort("localhost", port))
		if err != nil {
			t.Errorf("%s: %v", loopback, err)
			continue
		}
		if got := conn.RemoteAddr().String(); got != l.Addr().String() {
			t.Errorf("reached %s, want %s", got, l.Addr())
		}
		_ = conn.Close()
	}
}
