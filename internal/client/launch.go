package client

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"tunctl/internal/home"
)

// Detached returns a launcher that runs argv as a process of its own: no
// terminal, its own process group, its output in the agent's log.
func Detached(paths home.Paths, argv ...string) Launcher {
	return func(ctx context.Context) error {
		if err := home.MakePrivate(paths.State); err != nil {
			return err
		}
		out, err := os.OpenFile(paths.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { _ = out.Close() }()
		// The agent outlives the command that starts it.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Dir = paths.State
		cmd.SysProcAttr = detach()
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("run %q: %w", argv[0], err)
		}
		return cmd.Process.Release()
	}
}
