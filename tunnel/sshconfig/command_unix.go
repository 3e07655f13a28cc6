//go:build !windows

package sshconfig

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"syscall"
)

// replaceShell before a single command saves a process, as in ssh.
const replaceShell = "exec "

// systemSSH is empty: the PATH tells.
func systemSSH() string { return "" }

// systemDir has the settings for all people.
func systemDir() string { return "/etc/ssh" }

// shell runs a line by the user's shell, in a process group that ends as a whole.
func shell(ctx context.Context, line string) *exec.Cmd {
	program := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	cmd := exec.CommandContext(ctx, program, "-c", line) //nolint:gosec // it is the user's own command
	endAsGroup(cmd)
	return cmd
}

// endAsGroup makes the end of a command end the programs that it started too.
func endAsGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
