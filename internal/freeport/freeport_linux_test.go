package freeport

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestAPortIsFreeWhileACopyOfItsListenerIsOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	held, err := l.(*net.TCPListener).File() // as a program has it that is being started
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := Close(l); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting to a closed port: %v %v", c, err)
	}
	again, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
