package real

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// stayHere keeps the addresses of all labs from leaving the machine by its default route: while a
// link is down, and after the last lab has ended, when a client may still dial it. So this route
// stays.
const stayHere = "route replace unreachable " + supernet + " metric 9999\n"

// connect takes the first free slot, and lays the laptop's link to the switch.
func (c *Cluster) connect() error {
	if err := onLaptop(stayHere); err != nil {
		return err
	}
	keeper := strconv.Itoa(c.record.Keeper.PID)
	for slot := range slots {
		p := plan{slot}
		used, err := run("", "ip", "route", "show", "root", p.prefix().String())
		if err != nil {
			return err
		}
		if strings.TrimSpace(used) != "" {
			continue
		}
		// The name of the device is the lock: the kernel gives it to one lab only.
		_, err = run("", "ip", "link", "add", p.device(), "type", "veth", "peer", "name", "uplink", "netns", keeper)
		if err != nil && strings.Contains(err.Error(), "File exists") {
			continue
		}
		if err != nil {
			return fmt.Errorf("no virtual network devices here: %w", err)
		}
		c.plan, c.record.plan, c.record.Linked = p, p, true
		if err := c.save(); err != nil {
			return err
		}
		return c.layNetwork()
	}
	return errors.New("all lab networks of " + supernet + " are in use: end other labs, or delete their tunlab devices")
}

func (c *Cluster) layNetwork() error {
	p := c.plan
	var b strings.Builder
	fmt.Fprintf(&b, "link set lo up\naddr add %s/24 dev uplink\nlink set uplink up\n", p.router(link))
	for _, s := range segments {
		fmt.Fprintf(&b, "link add %s type bridge forward_delay 0\nlink set %s up\n", s.name, s.name)
	}
	fmt.Fprintf(&b, "addr add %s/24 dev wan\n", p.router(wan))
	if err := c.onSwitch(b.String()); err != nil {
		return err
	}
	return onLaptop(fmt.Sprintf("addr add %s/24 dev %s\nlink set %[2]s up\n", p.addr(link, 1), p.device()) +
		c.laptopRoute(p.addr(link, 1).String()))
}

// laptopRoute is the one way from the laptop into the cluster.
func (c *Cluster) laptopRoute(from string) string {
	if c.record.Delay.alive() {
		return fmt.Sprintf("route replace %s dev %s src %s\n", c.plan.subnet(wan), c.plan.delayed(), from)
	}
	return fmt.Sprintf("route replace %s via %s dev %s src %s\n", c.plan.subnet(wan), c.plan.router(link), c.plan.device(), from)
}

// plug connects a node to the switch.
func (c *Cluster) plug(n node, pid int) error {
	var onSwitch, onNode strings.Builder
	onNode.WriteString("link set lo up\n")
	for _, at := range n.ports {
		port := n.name + "-" + at.net.String()
		fmt.Fprintf(&onSwitch, "link add %s type veth peer name %s0 address %s netns %d\nlink set %[1]s master %[2]s up\n",
			port, at.net, at.mac(), pid)
		fmt.Fprintf(&onNode, "addr add %s/24 dev %s0\nlink set %[2]s0 up\n", c.plan.addr(at.net, at.host), at.net)
		if at.net == wan {
			fmt.Fprintf(&onNode, "route add %s via %s\n", c.plan.subnet(link), c.plan.router(wan))
		}
	}
	if err := c.onSwitch(onSwitch.String()); err != nil {
		return err
	}
	_, err := run(onNode.String(), inNetwork(pid, "ip", "-batch", "-")...)
	return err
}

// onLaptop and onSwitch run a batch of ip commands.
func onLaptop(batch string) error {
	_, err := run(batch, "ip", "-batch", "-")
	return err
}

func (c *Cluster) onSwitch(batch string) error {
	_, err := run(batch, inNetwork(c.record.Keeper.PID, "ip", "-batch", "-")...)
	return err
}

// firewall changes the switch's rules.
func (c *Cluster) firewall(rules string) error {
	_, err := run(rules, inNetwork(c.record.Keeper.PID, "nft", "-f", "-")...)
	return err
}

// NodeAddr is the address a node is known by: of login1 and jump the one that
// the laptop reaches, of the others the one inside.
func (c *Cluster) NodeAddr(name string) (string, error) {
	n, err := nodeByName(name)
	if err != nil {
		return "", err
	}
	return c.plan.main(n).String(), nil
}

// listening reports whether something in a process's network listens on a port.
func listening(pid, port int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return false
	}
	return listens(string(text), port)
}

// listens reads the form of /proc/net/tcp: 0A is the state of a listener.
func listens(table string, port int) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}
