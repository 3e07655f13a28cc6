package real

import (
	"fmt"
	"strings"
	"syscall"
)

// signalConns stops, continues or kills the live connections of an sshd, by its
// alias. The shells behind them hear of it only by losing their terminal.
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
		// A monitor that goes on may be starting the process of a login just made, which
		// would be missed, and keep the connection.
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

// ContConns lets frozen connections go on.
func (c *Cluster) ContConns(alias string) error { return c.signalConns(alias, sigCont) }

// KillConns ends an sshd's live connections.
func (c *Cluster) KillConns(alias string) error { return c.signalConns(alias, syscall.SIGKILL) }
