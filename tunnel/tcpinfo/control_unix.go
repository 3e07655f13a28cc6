//go:build linux || darwin

package tcpinfo

import (
	"net"
	"syscall"
)

// control calls f with the socket of a connection, if it has one.
func control(c net.Conn, f func(fd int)) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}
