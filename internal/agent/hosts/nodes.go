package hosts

import (
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// Node returns a compute node behind a host, which starts with what was learnt on other
// nodes there. It dials nothing.
func (h *Hosts) Node(host *tunnel.Host, o node.Options) *node.Node {
	learned, _ := h.learned.LoadOrStore(host, &node.Learned{})
	o.Learned = learned.(*node.Learned)
	name := host.Status().Alias
	site, _ := h.settings.Site(name)
	o.NoResume = !site.Resumes(h.settings.Config().Host(name))
	o.Records = relaysOf{name, h.relays}
	return node.New(host.Link(), o)
}
