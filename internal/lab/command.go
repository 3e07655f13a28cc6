package lab

import (
	"errors"
	"io"
	"os/exec"
	"time"
)

// runCommand runs a session's command to its end and returns its exit status. Like
// sshd, it does not end a command whose connection is lost: its pipes are closed.
func (c *Cluster) runCommand(cmd *exec.Cmd, input io.ReadCloser) int {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = time.Second // after Cancel
	if err := cmd.Start(); err != nil {
		c.log.Warn("practice command did not start", "err", err)
		return 127
	}
	// Not cmd.Stdin: Wait would wait for input that nobody sends.
	c.wg.Go(func() {
		_, _ = io.Copy(stdin, input)
		_ = stdin.Close()
	})
	err = cmd.Wait()
	c.wg.Go(func() { c.reap(cmd) })
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0 // anything else went wrong with the link only
	}
	if signal := exitSignal(exit.ProcessState); signal != 0 {
		return 128 + signal
	}
	return exit.ExitCode()
}

// reap lets what a command left in the background run on, until the cluster ends.
func (c *Cluster) reap(cmd *exec.Cmd) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for groupLives(cmd.Process) {
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			_ = killGroup(cmd.Process)
			return
		}
	}
}
