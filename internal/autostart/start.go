package autostart

import (
	"context"
	"errors"
)

// errNoUnit says that the agent is not an enabled unit of the person's systemd.
var errNoUnit = errors.New("the agent has no enabled unit")

// StartAgent starts the agent's enabled unit now, so that a command that needs an
// agent does not start a second one beside it.
func (a *Autostart) StartAgent(ctx context.Context) error {
	for _, s := range a.sets {
		u, ok := s.(*unit)
		if !ok {
			continue
		}
		if e, err := u.entry(ctx, a.program); err != nil || !e.Enabled || e.Stale {
			return errors.Join(errNoUnit, err)
		}
		_, err := u.run(ctx, "systemctl", "--user", "start", unitName)
		return err
	}
	return errNoUnit
}
