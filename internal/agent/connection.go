package agent

import (
	"context"
	"errors"
	"fmt"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
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

// accountRunner runs commands on one account only: the ID of a job means another job
// once the host's name stands for another cluster.
type accountRunner struct {
	host    *tunnel.Host
	account string
}

// Run implements jobwatch.Runner.
func (r accountRunner) Run(ctx context.Context, command string, stdin []byte) (jobwatch.Result, error) {
	res, err := r.host.RunAs(ctx, r.account, command, stdin)
	return jobwatch.Result(res), err
}

// requireConnected refuses a host that is not connected. It never connects: that is up
// to a person.
func (a *Agent) requireConnected(host string) error {
	if a.pool.Host(host).Status().State != api.HostUp {
		return notConnected(host, "")
	}
	return nil
}

// allowedAndConnected is requireConnected for a host that a person names.
func (a *Agent) allowedAndConnected(ctx context.Context, host string) error {
	if err := a.allowed(ctx, host); err != nil {
		return err
	}
	return a.requireConnected(host)
}

// notConnected is the error of what needs a connection to a host; the effect continues
// its message.
func notConnected(host, effect string) *api.Error {
	return api.Errorf(api.CodeUnreachable, "not connected to %s%s", host, effect).
		WithHint("`tunctl login %s` connects", host)
}

// jobOutOfReach is notConnected for what a person wants done to a job.
func jobOutOfReach(host, id, done string) *api.Error {
	e := notConnected(host, fmt.Sprintf(", so job %s cannot be %s now", id, done))
	e.Hint += ", then try again"
	return e
}

// retryUntilUp calls do until it succeeds or is refused. A lost connection, or a
// scheduler that does not respond, only delays it; waiting gets the reason. do may be
// called more than once, as a submission with one tag can be.
func (a *Agent) retryUntilUp(ctx context.Context, host *tunnel.Host, do func() error, waiting func(error)) error {
	for {
		err := do()
		if err == nil || !isTransient(err) || ctx.Err() != nil {
			return err
		}
		a.log.Info("retrying when the host responds", "host", host.Status().Alias, "err", err)
		waiting(err)
		pause := a.limits.ProbeEvery
		if isNoAnswer(err) {
			pause = a.limits.Jobs.QueryMin
		}
		if err := ctxtime.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := awaitUp(ctx, host); err != nil {
			return err
		}
	}
}

// isTransient reports whether an error says nothing about the request itself: the
// connection was lost, all sessions were in use, or the scheduler did not respond.
func isTransient(err error) bool {
	return errors.Is(err, jobwatch.ErrLost) || errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrBusy) || isNoAnswer(err)
}

// isNoAnswer reports whether the scheduler did not respond.
func isNoAnswer(err error) bool { return errors.Is(err, jobwatch.ErrNoAnswer) }

// awaitUp waits until the host is connected, however long that takes.
func awaitUp(ctx context.Context, host *tunnel.Host) error {
	for {
		changed := host.Changed()
		if host.Status().State == api.HostUp {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reconnects tells when a host is connected again.
type reconnects struct {
	host    *tunnel.Host
	up      bool
	changed <-chan struct{} // closed at the host's next change
}

func watchReconnects(h *tunnel.Host) *reconnects {
	r := &reconnects{host: h}
	r.reconnected()
	return r
}

// reconnected reports whether the host is connected and was not at the last call.
func (r *reconnects) reconnected() bool {
	r.changed = r.host.Changed()
	was := r.up
	r.up = r.host.Status().State == api.HostUp
	return r.up && !was
}
