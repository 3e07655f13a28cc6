package tunnel

import (
	"os/exec"
	"syscall"
)

// killWithParent has the kernel end a program when we are gone.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
