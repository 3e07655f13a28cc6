package agent

import (
	"context"
	"errors"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// persist does something that needs a host until it is done or refused. A link that
// is lost meanwhile, or a scheduler that does not answer, only puts it off; waiting is
// told why. It may be done more than once, as a submission under one tag can be.
func (a *Agent) persist(ctx context.Context, host *tunnel.Host, do func() error, waiting func(error)) error {
	for {
		err := do()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		a.log.Info("retrying when the host responds", "host", host.Status().Alias, "err", err)
		waiting(err)
		pause := a.limits.ProbeEvery
		if isSilence(err) {
			pause = a.limits.Jobs.QueryMin
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		if err := awaitUp(ctx, host); err != nil {
			return err
		}
	}
}

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

// passes reports whether an error says nothing about what was asked: the link was
// lost over it, or the scheduler did not answer.
func passes(err error) bool {
	return errors.Is(err, jobwatch.ErrLost) || errors.Is(err, api.ErrDown) || isSilence(err)
}

// isSilence reports whether it was the scheduler that did not answer.
func isSilence(err error) bool { return errors.Is(err, jobwatch.ErrNoAnswer) }
