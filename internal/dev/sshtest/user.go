package sshtest

import (
	"context"
	"sync"

	"tunctl/internal/api"
	"tunctl/tunnel/failure"
)

// Nobody is a tunnel.Prompter that can ask nobody.
type Nobody struct{}

// Prompt implements tunnel.Prompter.
func (Nobody) Prompt(context.Context, api.Prompt, func()) (api.Answer, error) {
	return api.Answer{}, failure.ErrNobody
}

// Memory is a tunnel.Memory that ends with the test.
type Memory struct {
	mu    sync.Mutex
	hosts map[string]api.Known
}

// NewMemory returns a memory that knows no host.
func NewMemory() *Memory { return &Memory{hosts: map[string]api.Known{}} }

// Known implements tunnel.Memory.
func (m *Memory) Known(host string) api.Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[host]
}

// Remember implements tunnel.Memory.
func (m *Memory) Remember(host string, change func(*api.Known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.hosts[host]
	change(&known)
	m.hosts[host] = known
}
