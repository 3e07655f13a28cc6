package tunnel

import (
	"slices"
	"sync"
)

// briefMemory remembers for as long as the process lives.
type briefMemory struct {
	mu      sync.Mutex
	silent  map[string]bool
	address map[string]string
	account map[string][]string
}

func newBriefMemory() *briefMemory {
	return &briefMemory{silent: map[string]bool{}, address: map[string]string{}, account: map[string][]string{}}
}

func (m *briefMemory) Silent(host string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent[host]
}

func (m *briefMemory) SetSilent(host string, silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent[host] = silent
}

func (m *briefMemory) LastAddress(host string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.address[host]
}

func (m *briefMemory) SetLastAddress(host, addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.address[host] = addr
}

func (m *briefMemory) Accounts(host string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.account[host]
}

func (m *briefMemory) AddAccount(host, account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.account[host] = append(slices.Clip(m.account[host]), account)
}
