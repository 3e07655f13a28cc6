package tunnel

import (
	"os/exec"
	"syscall"
)

// endWithUs has the kernel end a program when we are gone.
func endWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
