package real

import "syscall"

// FreezeListener stops an sshd that listens: connects still complete, and nothing
// is said on them.
func (c *Cluster) FreezeListener(alias string) error { return c.signalListener(alias, sigStop) }

// ContListener lets a frozen listener go on.
func (c *Cluster) ContListener(alias string) error { return c.signalListener(alias, sigCont) }

func (c *Cluster) signalListener(alias string, sig syscall.Signal) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	return c.signalService(s.daemon(), sig)
}

// StopSSHD ends an sshd; its live connections stay. The port refuses.
func (c *Cluster) StopSSHD(alias string) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	return c.stopService(s.daemon())
}

// StartSSHD starts an sshd that was stopped.
func (c *Cluster) StartSSHD(alias string) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	return c.startService(s.daemon())
}

// RestartSSHD restarts an sshd as an upgrade does: its live connections stay.
func (c *Cluster) RestartSSHD(alias string) error {
	if err := c.StopSSHD(alias); err != nil {
		return err
	}
	return c.StartSSHD(alias)
}
