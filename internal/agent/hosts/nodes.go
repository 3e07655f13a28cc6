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

// Learned is what compute nodes have shown about a host. Those that come later start with it.
func (h *Hosts) Learned(host *tunnel.Host) *node.Learned {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	if h.nodes.learned == nil {
		h.nodes.learned = map[*tunnel.Host]*node.Learned{}
	}
	if h.nodes.learned[host] == nil {
		h.nodes.learned[host] = &node.Learned{}
	}
	return h.nodes.learned[host]
}
