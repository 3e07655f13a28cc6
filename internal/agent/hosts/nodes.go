package hosts

import (
	"sync"

	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// nodes are what compute nodes have shown about the hosts before them.
type nodes struct {
	mu      sync.Mutex
	learned map[*tunnel.Host]*node.Learned
}

// Node returns a compute node behind a host, which starts with what was learnt on other
// nodes there. It dials nothing.
func (h *Hosts) Node(host *tunnel.Host, o node.Options) *node.Node {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	if h.nodes.learned == nil {
		h.nodes.learned = map[*tunnel.Host]*node.Learned{}
	}
	if h.nodes.learned[host] == nil {
		h.nodes.learned[host] = &node.Learned{}
	}
	o.Learned = h.nodes.learned[host]
	name := host.Status().Alias
	site, _ := h.settings.Site(name)
	o.NoResume = !site.Resumes(h.settings.Config().Host(name))
	o.Records = relaysOf{name, h.relays}
	return node.New(host.Link(), o)
}
