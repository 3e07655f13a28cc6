package real

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// signalConns stops, continues or kills the live connections of an sshd, by its
// alias. The shells behind them only notice the loss of their terminal.
func (c *Cluster) signalConns(alias string, sig syscall.Signal) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	listener, err := c.servicePID(s.daemon())
	if err != nil {
		return err
	}
	for _, monitor := range children(listener.PID) {
		// A running monitor may just start the process of a new login, which would be
		// missed and keep the connection.
		if sig != sigCont {
			if err := monitor.signal(sigStop); err != nil {
				return err
			}
		}
		parts := []process{monitor}
		for _, p := range children(monitor.PID) {
			if st, err := readStat(fmt.Sprintf("/proc/%d", p.PID)); err == nil && strings.HasPrefix(st.name, "sshd") {
				parts = append(parts, p)
			}
		}
		for _, p := range parts {
			if err := p.signal(sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// FreezeConns stops the processes of an sshd's live connections: they stay open
// and answer nothing.
func (c *Cluster) FreezeConns(alias string) error { return c.signalConns(alias, sigStop) }

// ContConns continues frozen connections.
func (c *Cluster) ContConns(alias string) error { return c.signalConns(alias, sigCont) }

// KillConns ends an sshd's live connections.
func (c *Cluster) KillConns(alias string) error { return c.signalConns(alias, syscall.SIGKILL) }

// FreezeListener stops an sshd that listens: connections are accepted, but the server
// sends nothing.
func (c *Cluster) FreezeListener(alias string) error { return c.signalListener(alias, sigStop) }

// ContListener continues a frozen listener.
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

// controller is the server of the lab's scheduler.
func (c *Cluster) controller() service {
	if c.options.GridEngine {
		return qmaster
	}
	return slurmctld
}

// StopController ends the scheduler's server; jobs keep running.
func (c *Cluster) StopController() error { return c.stopService(c.controller()) }

// StartController starts it again, and waits until Slurm's nodes have registered with it.
// A slurmd that registers connects to each step that it finds, takes one that does not
// listen yet for a dead one, and removes its script: a job that starts meanwhile dies.
func (c *Cluster) StartController() error {
	if err := c.startService(c.controller()); err != nil || c.options.GridEngine {
		return err
	}
	for _, node := range []string{"cn01", "cn02"} {
		if _, err := c.servicePID(slurmd(node)); err != nil {
			continue // a node that crashed
		}
		if err := c.awaitRegistration(node); err != nil {
			return err
		}
	}
	return nil
}

// FreezeController stops it without ending it: commands wait, and time out.
func (c *Cluster) FreezeController() error { return c.signalService(c.controller(), sigStop) }

// ContController continues a frozen controller.
func (c *Cluster) ContController() error { return c.signalService(c.controller(), sigCont) }

// RotateHostKey gives an sshd new host keys.
func (c *Cluster) RotateHostKey(alias string) error {
	return c.replaceHostKeys(alias, func(f hostKeyFile) ([]byte, error) {
		private, _, err := newKey(f.kind, "rotated")
		return private, err
	})
}

// RestoreHostKey gives an sshd back the keys that known_hosts has.
func (c *Cluster) RestoreHostKey(alias string) error {
	return c.replaceHostKeys(alias, func(f hostKeyFile) ([]byte, error) { return os.ReadFile(f.outside) })
}

func (c *Cluster) replaceHostKeys(alias string, key func(hostKeyFile) ([]byte, error)) error {
	s, err := sshdByAlias(alias)
	if err != nil {
		return err
	}
	for _, f := range c.hostKeyFiles(s.node) {
		text, err := key(f)
		if err != nil {
			return err
		}
		path, err := c.root(s.node, f.inside)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return c.RestartSSHD(alias)
}
