package testport

import (
	"net"
	"strconv"
	"testing"

	"tunctl/internal/dev/must"
)

func TestBlock(t *testing.T) {
	taken := map[int]bool{}
	for range 8 {
		b, err := Reserve(t.Context())
		must.Do(t, err)
		defer b.Close()
		used, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.next))) // by a program of the user's
		must.Do(t, err)
		defer func() { _ = used.Close() }()
		for range 5 {
			port, err := b.Take(t.Context())
			must.Do(t, err)
			if taken[port] || port == used.Addr().(*net.TCPAddr).Port {
				t.Errorf("port %d is taken", port)
			}
			taken[port] = true
		}
	}
}

func TestFree(t *testing.T) {
	l, err := net.Listen("tcp", net.JoinHostPort("localhost", strconv.Itoa(Free(t))))
	must.Do(t, err)
	_ = l.Close()
}
