package sshconfig

import (
	"context"
	"os/exec"
	"syscall"
)

// replaceShell is empty: cmd.exe has no exec.
const replaceShell = ""

// shell runs a line by cmd.exe, without a window.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c ` + line, HideWindow: true}
	return cmd
}

// endAsGroup does nothing: this system has no process groups.
func endAsGroup(*exec.Cmd) {}
