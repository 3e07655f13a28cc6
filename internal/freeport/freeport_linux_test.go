package freeport

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"tunctl/internal/dev/must"
)

func TestClose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	held, err := l.(*net.TCPListener).File() // as a program has it that is being started
	must.Do(t, err)
	defer func() { _ = held.Close() }()
	must.Do(t, Close(l))
	if c, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to a closed port: %v %v", c, err)
	}
	again, err := net.Listen("tcp", l.Addr().String())
	must.Do(t, err)
	_ = again.Close()
}
