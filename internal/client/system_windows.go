package client

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detach runs a process without a console.
func detach() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS, HideWindow: true}
}
