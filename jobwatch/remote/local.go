package remote

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"
)

// Local is a Runner on this computer, for an agent that runs on the cluster itself. The
// file system notifies a Follower with this Runner of changes. The Follower polls as well,
// since network file systems do not notify.
type Local struct{}

// Run implements Runner.
func (Local) Run(ctx context.Context, command string, stdin []byte) (Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	res := Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}
