package sshconfig

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"tunctl/internal/api"
)

// FindSSH finds the ssh program of the system where it has one, else in the user's PATH,
// or in our own: an agent started at login may lack the former.
func FindSSH(env api.Env) (string, error) {
	if path, err := exec.LookPath(systemSSH()); err == nil {
		return path, nil
	}
	for _, dir := range filepath.SplitList(env["PATH"]) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "ssh")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("ssh")
}

// outputDelay is how long a command's last output may take to arrive after its end: on a
// computer that just woke up everything is slow.
const outputDelay = 5 * time.Second

// ShellCommand runs a line as ssh runs the commands of its settings: by the user's
// shell, in their newest environment. Ending it ends the programs that it started.
func ShellCommand(ctx context.Context, line string, env api.Env) *exec.Cmd {
	cmd := shell(ctx, line)
	cmd.Env = env.Environ()
	cmd.WaitDelay = outputDelay
	return cmd
}

// ProxyProgram runs the ProxyCommand.
func (s *Settings) ProxyProgram(ctx context.Context, env api.Env) *exec.Cmd {
	return ShellCommand(ctx, replaceShell+newTokens(s).Replace(s.ProxyCommand), env)
}
