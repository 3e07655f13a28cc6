//go:build unix

package lab

import (
	"os"
	"os/exec"
	"syscall"
)

const hasShell = true

// ownGroup lets a command lead a process group, so that it ends as one.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminateGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

func killGroup(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// exitSignal is the signal that ended a process, or 0.
func exitSignal(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}

// groupAlive reports whether a group still has a process in it.
func groupAlive(p *os.Process) bool { return syscall.Kill(-p.Pid, 0) == nil }
