package agent

import (
	"tunctl/internal/agent/facts"
)

// ServerPort is the port of the server whose environment programs inside the session's job
// get; 0: it is not known.
func (a *Agent) ServerPort(name string) int {
	s, err := a.Sessions.Find(name)
	if err != nil {
		return 0
	}
	nodes, err := s.RunningNodes()
	if err != nil {
		return 0
	}
	return nodes.ServerPort()
}

// Reenter enters the state that follows from what is known of a session, as every change does.
func (a *Agent) Reenter(name string) {
	if s, err := a.Sessions.Find(name); err == nil {
		s.Change(func(*facts.Facts) {})
	}
}
