package nowindow

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// Set gives the program a console without a window.
func Set(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NO_WINDOW
}
