package openssh

import (
	"os/exec"
	"syscall"
)

// killWithParent makes the kernel end a program when we end.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
