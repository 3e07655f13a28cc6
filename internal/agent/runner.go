package agent

import (
	"context"

	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// runner lets jobwatch run commands over a host's connection.
type runner struct{ host *tunnel.Host }

// Run implements jobwatch.Runner.
func (r runner) Run(ctx context.Context, command string, stdin []byte) (jobwatch.Result, error) {
	res, err := r.host.Run(ctx, command, stdin)
	return jobwatch.Result(res), err
}

// accountRunner runs commands on one account only: a job's number means another job
// where the host's name has come to stand for another cluster.
type accountRunner struct {
	host    *tunnel.Host
	account string
}

// Run implements jobwatch.Runner.
func (r accountRunner) Run(ctx context.Context, command string, stdin []byte) (jobwatch.Result, error) {
	res, err := r.host.RunAs(ctx, r.account, command, stdin)
	return jobwatch.Result(res), err
}
