//go:build unix

package client

import "syscall"

const (
	refused     = syscall.ECONNREFUSED // a socket without an agent behind it
	unsupported = syscall.EAFNOSUPPORT // a system without such sockets
)
