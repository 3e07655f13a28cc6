package session

import (
	"context"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
)

// Machine returns a node of the session's running job, as [jobnode.Run.Machine] does. It never
// brings a session up: the error says why there is no node, and what to run.
func (s *Session) Machine(ctx context.Context, which string) (gateway.Machine, error) {
	nodes, err := s.RunningNodes()
	if err != nil {
		return nil, err
	}
	return nodes.Machine(ctx, which)
}

// RunningNodes are the nodes of the session's job, if it runs.
func (s *Session) RunningNodes() (*jobnode.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if nodes := s.nodes.Load(); nodes != nil {
		if job := nodes.Job(); job.State == api.JobRunning && job.Node != "" {
			return nodes, nil
		}
	}
	return nil, s.notRunningLocked()
}

// notRunningLocked says why nothing runs inside the session's job, and what to run.
func (s *Session) notRunningLocked() *api.Error {
	start := facts.StartAgain(s.cfg)
	if s.origin.isJob() {
		start = facts.StartedByHand
	}
	return s.facts.NotRunning(s.current, s.cfg, start, s.nodes.Load() != nil, time.Now())
}
