package sshconfig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"tunctl/internal/nowindow"
)

// replaceShell is empty: cmd.exe has no exec.
const replaceShell = ""

// systemSSH is the OpenSSH of Windows, also where it is not in the PATH. What comes first
// there is often that of Git, which prints paths as /c/Users.
func systemSSH() string {
	return filepath.Join(os.Getenv("SystemRoot"), "System32", "OpenSSH", "ssh.exe")
}

// systemDir has the settings for all people.
func systemDir() string { return filepath.Join(os.Getenv("ProgramData"), "ssh") }

// shell runs a line by cmd.exe, without a window.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c ` + line}
	nowindow.Set(cmd)
	return cmd
}

// endAsGroup only hides the window of a command: this system has no process groups.
func endAsGroup(cmd *exec.Cmd) { nowindow.Set(cmd) }
