package real

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// cut is a way to lose the network: what to do and how to undo it.
type cut struct {
	laptop, onSwitch, firewall             string
	undoLaptop, undoSwitch, undoneFirewall string
}

// dropping is a table of the switch's firewall that does something to each packet
// which it passes on.
func dropping(name, verdict string) cut {
	return cut{
		firewall:       fmt.Sprintf("table ip lab_%s { chain f { type filter hook forward priority -10; %s; }; }\n", name, verdict),
		undoneFirewall: fmt.Sprintf("delete table ip lab_%s\n", name),
	}
}

// cutAt describes the cuts by name.
func (c *Cluster) cutAt(where string) (cut, error) {
	switch where {
	case "wifi":
		from, err := c.LaptopAddr()
		if err != nil {
			return cut{}, err
		}
		x := c.linkCut(c.plan.device(), c.plan.delayed())
		// The kernel takes a device's routes down with it, and does not bring them back.
		return cut{laptop: x.onSwitch, undoLaptop: x.undoSwitch + c.laptopRoute(from)}, nil
	case "vpn":
		return c.linkCut("uplink", slowUplink), nil
	case "silent":
		return dropping("silent", "drop"), nil
	case "reset":
		return dropping("reset", fmt.Sprintf("ip saddr %s ip protocol tcp reject with tcp reset", c.plan.subnet(link))), nil
	}
	n, err := nodeByName(where)
	if err != nil {
		return cut{}, fmt.Errorf("cannot cut %q: wifi, vpn, silent, reset or a node", where)
	}
	jack := n.name + "-" + n.ports[0].net.String()
	return cut{onSwitch: "link set " + jack + " down\n", undoSwitch: "link set " + jack + " up\n"}, nil
}

// linkCut takes a link down, and the delayed one if it is in use.
func (c *Cluster) linkCut(device, delayed string) cut {
	devices := []string{device}
	if c.record.Delay.alive() {
		devices = append(devices, delayed)
	}
	var x cut
	for _, d := range devices {
		x.onSwitch += fmt.Sprintf("link set %s down\n", d)
		x.undoSwitch += fmt.Sprintf("link set %s up\n", d)
	}
	return x
}

// Cut takes a part of the network away: "wifi" (the laptop sees its link go
// down), "vpn" (the far end goes down: the laptop's link loses its carrier),
// "silent" (packets vanish, nothing is seen), "reset" (a firewall answers each
// packet with a reset), or a node's first link.
func (c *Cluster) Cut(where string) error {
	x, err := c.cutAt(where)
	if err != nil {
		return err
	}
	return c.change(x.laptop, x.onSwitch, x.firewall)
}

// Restore undoes a Cut.
func (c *Cluster) Restore(where string) error {
	x, err := c.cutAt(where)
	if err != nil {
		return err
	}
	return c.change(x.undoLaptop, x.undoSwitch, x.undoneFirewall)
}

func (c *Cluster) change(laptop, onSwitch, firewall string) error {
	if laptop != "" {
		return onLaptop(laptop)
	}
	if onSwitch != "" {
		return c.onSwitch(onSwitch)
	}
	return c.firewall(firewall)
}

// LaptopAddr is the address that the laptop has now.
func (c *Cluster) LaptopAddr() (string, error) {
	out, err := run("", "ip", "-4", "-o", "addr", "show", "dev", c.plan.device())
	if err != nil {
		return "", err
	}
	fields := strings.Fields(out)
	if len(fields) < 4 {
		return "", fmt.Errorf("%s has no address", c.plan.device())
	}
	addr, _, _ := strings.Cut(fields[3], "/")
	return addr, nil
}

// Roam moves the laptop to another address, as a change of Wi-Fi does, and
// returns the new one. Connections from the old one hear nothing more.
func (c *Cluster) Roam() (string, error) {
	old, err := c.LaptopAddr()
	if err != nil {
		return "", err
	}
	last, err := strconv.Atoi(old[strings.LastIndexByte(old, '.')+1:])
	if err != nil {
		return "", err
	}
	addr := c.plan.addr(link, last%100+1).String()
	// Removing the first address takes later ones along: all go, then one comes.
	return addr, onLaptop(fmt.Sprintf("addr flush dev %s\naddr add %s/24 dev %[1]s\n", c.plan.device(), addr) + c.laptopRoute(addr))
}

// SignalConns stops, continues or kills the live connections of an sshd, by its
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

func (c *Cluster) signalService(s service, sig syscall.Signal) error {
	p, err := c.servicePID(s)
	if err != nil {
		return err
	}
	return p.signal(sig)
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

// RotateHostKey gives an sshd new host keys.
func (c *Cluster) RotateHostKey(alias string) error {
	return c.replaceHostKeys(alias, func(f hostKeyFile) ([]byte, error) {
		private, _, err := newKey(f.kind, "rotated", "")
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

// StopController ends slurmctld; jobs run on.
func (c *Cluster) StopController() error { return c.stopService(slurmctld) }

// StartController starts slurmctld again.
func (c *Cluster) StartController() error { return c.startService(slurmctld) }

// FreezeController stops slurmctld without ending it: commands wait, and time out.
func (c *Cluster) FreezeController() error { return c.signalService(slurmctld, sigStop) }

// ContController lets a frozen controller go on.
func (c *Cluster) ContController() error { return c.signalService(slurmctld, sigCont) }
