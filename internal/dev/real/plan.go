package real

import (
	"fmt"
	"net/netip"
)

// supernet holds the addresses of every lab; each takes a /22 of it.
const supernet = "10.77.0.0/16"

const slots = 64

// network is one of the four /24 networks of a lab.
type network int

const (
	link network = iota // laptop and switch
	wan                 // what the laptop reaches: login1 and jump
	dmz                 // between jump and login1
	lan                 // inside: login1, controller and compute nodes
)

// segments are the networks that are bridges on the switch.
var segments = []struct {
	net  network
	name string
}{{wan, "wan"}, {dmz, "dmz"}, {lan, "lan"}}

func (n network) String() string { return [...]string{"link", "wan", "dmz", "lan"}[n] }

// port is a node's place in a network.
type port struct {
	net  network
	host int
}

// mac is the port's hardware address: always the same, so that the others find a
// node again which has crashed and booted.
func (p port) mac() string { return fmt.Sprintf("02:4c:41:42:%02x:%02x", int(p.net), p.host) }

// node is what a machine of the cluster is made of. Its first port has the
// address it is known by.
type node struct {
	name  string
	ports []port
	slurm bool // has munge and a slurm.conf
}

var nodes = []node{
	{name: "ctl", slurm: true, ports: []port{{lan, 5}}},
	{name: "login1", slurm: true, ports: []port{{wan, 10}, {dmz, 10}, {lan, 10}}},
	{name: "jump", ports: []port{{wan, 2}, {dmz, 2}}},
	{name: "cn01", slurm: true, ports: []port{{lan, 101}}},
	{name: "cn02", slurm: true, ports: []port{{lan, 102}}},
}

func nodeByName(name string) (node, error) {
	for _, n := range nodes {
		if n.name == name {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("no node %q: ctl, login1, jump, cn01 or cn02", name)
}

// plan gives a lab's names and addresses, all from the number of its slot.
type plan struct{ Slot int }

// device is the laptop's end of the link; delayed is the one in use instead
// while packets are held up.
func (p plan) device() string  { return fmt.Sprintf("tunlab%d", p.Slot) }
func (p plan) delayed() string { return p.device() + "d" }

// prefix covers all networks of the lab.
func (p plan) prefix() netip.Prefix { return netip.PrefixFrom(p.addr(link, 0), 22) }

func (p plan) subnet(n network) netip.Prefix { return netip.PrefixFrom(p.addr(n, 0), 24) }

func (p plan) addr(n network, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(4*p.Slot + int(n)), byte(host)})
}

// router is the switch's address in a network.
func (p plan) router(n network) netip.Addr { return p.addr(n, 254) }

// On is a node's address in a network, for templates: {{.On "login1" "lan"}}.
func (p plan) On(name, segment string) (netip.Addr, error) {
	n, err := nodeByName(name)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, at := range n.ports {
		if at.net.String() == segment {
			return p.addr(at.net, at.host), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("node %q has no port in %q", name, segment)
}

// main is the address a node is known by.
func (p plan) main(n node) netip.Addr { return p.addr(n.ports[0].net, n.ports[0].host) }
