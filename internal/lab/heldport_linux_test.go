package lab

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tunctl/internal/freeport"
)

func TestARefusedPortIsGivenToNobodyElse(t *testing.T) {
	addr, release, err := holdPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if conn, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to a held port: %v %v", conn, err)
	}
	if err := bind(t, addr); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another program's bind: %v", err)
	}
	for range 2 { // it opens, closes and opens again
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = freeport.Close(listener)
	}
}

// bind takes a port as a program does that knows nothing of who holds it.
func bind(t *testing.T, addr string) error {
	t.Helper()
	_, text, _ := net.SplitHostPort(addr)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}
