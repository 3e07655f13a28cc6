package real

import (
	"fmt"
	"strconv"
	"strings"
)

// cut is a fault of the network: the commands that do and undo it, and where they run.
type cut struct {
	where    func(commands string) error
	do, undo string
}

// cutAt describes the cuts by name.
func (c *Cluster) cutAt(name string) (cut, error) {
	switch name {
	case "wifi":
		from, err := c.laptopAddr()
		if err != nil {
			return cut{}, err
		}
		x := c.linkCut(onLaptop, c.plan.device(), c.plan.delayed())
		// The kernel removes a device's routes with it, and does not restore them.
		x.undo += c.laptopRoute(from)
		return x, nil
	case "vpn":
		return c.linkCut(c.onSwitch, "uplink", slowUplink), nil
	case "silent":
		// Only the laptop's: a kernel may show bridged packets to this hook, too, and
		// Slurm gives a node up that it does not hear of for ten seconds.
		laptop := c.plan.subnet(link)
		return c.packetCut(name, fmt.Sprintf("ip saddr %s drop; ip daddr %[1]s drop", laptop)), nil
	case "reset":
		return c.packetCut(name, fmt.Sprintf("ip saddr %s ip protocol tcp reject with tcp reset", c.plan.subnet(link))), nil
	}
	n, err := nodeByName(name)
	if err != nil {
		return cut{}, fmt.Errorf("cannot cut %q: wifi, vpn, silent, reset or a node", name)
	}
	port := n.name + "-" + n.ports[0].net.String()
	return cut{c.onSwitch, "link set " + port + " down\n", "link set " + port + " up\n"}, nil
}

// linkCut takes a link down, and the delayed one if it is in use.
func (c *Cluster) linkCut(where func(string) error, device, delayed string) cut {
	x := cut{where, "link set " + device + " down\n", "link set " + device + " up\n"}
	if c.record.Delay.alive() {
		x.do += "link set " + delayed + " down\n"
		x.undo += "link set " + delayed + " up\n"
	}
	return x
}

// packetCut does something to each packet that the switch passes on.
func (c *Cluster) packetCut(name, verdict string) cut {
	return cut{
		where: c.firewall,
		do:    fmt.Sprintf("table ip lab_%s { chain f { type filter hook forward priority -10; %s; }; }\n", name, verdict),
		undo:  fmt.Sprintf("delete table ip lab_%s\n", name),
	}
}

// Cut breaks a part of the network: "wifi" (the laptop's link goes down), "vpn" (the
// remote end goes down, and the laptop's link loses its carrier), "silent" (packets are
// dropped), "reset" (a firewall answers each packet with a reset), or a node's first
// link.
func (c *Cluster) Cut(name string) error {
	x, err := c.cutAt(name)
	if err != nil {
		return err
	}
	return x.where(x.do)
}

// Restore undoes a Cut.
func (c *Cluster) Restore(name string) error {
	x, err := c.cutAt(name)
	if err != nil {
		return err
	}
	return x.where(x.undo)
}

// laptopAddr is the address that the laptop has now.
func (c *Cluster) laptopAddr() (string, error) {
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
	old, err := c.laptopAddr()
	if err != nil {
		return "", err
	}
	last, err := strconv.Atoi(old[strings.LastIndexByte(old, '.')+1:])
	if err != nil {
		return "", err
	}
	addr := c.plan.addr(link, last%100+1).String()
	// Removing the first address removes later ones, too: remove all, then add one.
	return addr, onLaptop(fmt.Sprintf("addr flush dev %s\naddr add %s/24 dev %[1]s\n", c.plan.device(), addr) + c.laptopRoute(addr))
}
