package usage

import (
	"context"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
)

// Source is the session that a [Meter] measures. The agent's session is one.
type Source interface {
	// Run is the current run of the session's job; nil: none runs. Another run is another value.
	Run() Run
	// Traffic is what the session's forwards have relayed in bytes, and how many connections
	// they have now.
	Traffic() (in, out, conns int64)
	// IdleAfter is after how long the user is told that the job is idle; 0: never.
	IdleAfter() time.Duration
	// PageUsed is when the page of the job was last used; zero: it has none that tells.
	PageUsed(ctx context.Context) (time.Time, error)
	// SetIdle takes in that the job is idle, in words for the user, or with "" that it is not.
	SetIdle(text string)
}

// Run is one run of a job. The agent's nodes of a job are one.
type Run interface {
	Job() api.Job
	// ID is the job's for the program that measures inside it.
	ID() string
	// Nodes is how many nodes the job has.
	Nodes() int
	// Connected reports whether the host responds, as far as is known.
	Connected() bool
	// CanEnter reports whether the job can be measured inside.
	CanEnter(ctx context.Context) (bool, error)
	// Machine is a node of the job; "" is the one of its server.
	Machine(ctx context.Context, which string) (gateway.Machine, error)
	// Counted is what the scheduler has counted.
	Counted(ctx context.Context) (Reading, error)
}
