package client

import "golang.org/x/sys/windows"

// These are not syscall's constants of the usual names, which Go made up for Windows.
const (
	refused     = windows.WSAECONNREFUSED // a socket without an agent behind it
	unsupported = windows.WSAEAFNOSUPPORT // a system without such sockets
)
