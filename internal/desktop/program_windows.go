package desktop

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached gives a program its own console group, without a window for it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
}
