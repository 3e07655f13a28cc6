package hosts

import (
	"context"
	"errors"
	"fmt"

	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// Runner lets jobwatch run commands over a host's connection, on one account only unless that
// is "": the ID of a job means another job once the host's name stands for another cluster.
type Runner struct {
	Host    *tunnel.Host
	Account string
}

// Run implements remote.Runner.
func (r Runner) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	if r.Account == "" {
		res, err := r.Host.Run(ctx, command, stdin)
		return remote.Result(res), err
	}
	res, err := r.Host.RunAs(ctx, r.Account, command, stdin)
	return remote.Result(res), err
}

// Connected refuses a host that is not connected. It never connects: that is up
// to the user.
func (h *Hosts) Connected(host string) error {
	if !IsUp(h.Pool.Host(host)) {
		return NotConnected(host, "")
	}
	return nil
}

// AllowedAndConnected is Connected for a host that a user names.
func (h *Hosts) AllowedAndConnected(ctx context.Context, host string) error {
	if err := h.Allowed(ctx, host); err != nil {
		return err
	}
	return h.Connected(host)
}

// NotConnected is the error of what needs a connection to a host; the effect continues
// its message.
func NotConnected(host, effect string) *api.Error {
	return api.Errorf(api.CodeUnreachable, "not connected to %s%s", host, effect).
		WithHint("`tunctl login %s` connects", host)
}

// JobOutOfReach is NotConnected for what the user wants done to a job.
func JobOutOfReach(host, id string) *api.Error {
	e := NotConnected(host, fmt.Sprintf(", where job %s is", id))
	e.Hint += ", then try again"
	return e
}

// RetryUntilUp calls do until it succeeds or is refused. A lost connection, or a
// scheduler that does not respond, only delays it; waiting gets the reason. do may be
// called more than once, as a submission with one tag can be.
func (h *Hosts) RetryUntilUp(ctx context.Context, host *tunnel.Host, do func() error, waiting func(error)) error {
	for {
		err := do()
		if err == nil || !isTransient(err) || ctx.Err() != nil {
			return err
		}
		h.log.Info("retrying when the host responds", "host", host.Status().Alias, "err", err)
		waiting(err)
		pause := h.opt.Retry
		if IsNoAnswer(err) {
			pause = h.opt.Jobs.QueryMin
		}
		if err := ctxtime.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := Await(ctx, host, func() bool { return IsUp(host) }); err != nil {
			return err
		}
	}
}

// isTransient reports whether an error says nothing about the request itself: the
// connection was lost, all sessions were in use, or the scheduler did not respond.
func isTransient(err error) bool {
	return errors.Is(err, remote.ErrLost) || errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrBusy) || IsNoAnswer(err)
}

// IsNoAnswer reports whether the scheduler did not respond.
func IsNoAnswer(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }

// Await waits until done is true, which is asked at each change of the host.
func Await(ctx context.Context, host *tunnel.Host, done func() bool) error {
	for {
		changed := host.Changed()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// IsUp reports whether the host is connected.
func IsUp(host *tunnel.Host) bool { return host.Status().State == api.HostUp }
