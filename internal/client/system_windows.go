package client

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// These are not the constants of these names in syscall, which Go invented for Windows.
const (
	refused     = windows.WSAECONNREFUSED // a socket without an agent behind it
	unsupported = windows.WSAEAFNOSUPPORT // a system without such sockets
)

// detach runs a process without a console.
func detach() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS, HideWindow: true}
}
