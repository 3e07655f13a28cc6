package freeport

import (
	"net"

	"golang.org/x/sys/unix"
)

// stopListening ends the listening of a socket in all its copies.
func stopListening(l *net.TCPListener) {
	raw, err := l.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}
