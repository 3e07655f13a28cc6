package agent

import (
	"tunctl/internal/api"
)

func statusOf(g *workday) *api.Status {
	st := g.agent.server.status()
	return &st
}

// asked is how often the hosts were used, in any way, so far.
func (g *workday) asked() int {
	sum := 0
	for _, h := range g.hosts {
		h.mu.Lock()
		for _, n := range h.uses {
			sum += n
		}
		h.mu.Unlock()
	}
	return sum
}
