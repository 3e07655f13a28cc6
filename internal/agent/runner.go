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
