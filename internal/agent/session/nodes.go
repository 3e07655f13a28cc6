package session

import (
	"context"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/api"
	"tunctl/internal/words"
)

// heldNotice is how long what runs inside a job must have waited to be worth a notice.
const heldNotice = time.Minute

// HeldChanged shows that what runs inside the job waits for a connection, has continued or was lost.
func (s *Session) HeldChanged() {
	s.Change(func(*facts.Facts) {})
	nodes := s.nodes.Load()
	if nodes == nil {
		return
	}
	h := nodes.Held()
	if h != nil && !h.Until.IsZero() && (h.Lost > 0 || h.Until.Sub(h.Since) >= heldNotice) {
		s.Notify("", s.Name+": "+words.HeldOver(*h))
	}
}

// Machine returns a node of the session's running job, as [jobnode.Run.Machine] does. It never
// brings a session up: the error says why there is no node, and what to run.
func (s *Session) Machine(ctx context.Context, which string) (jobnode.Machine, error) {
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
	if s.byJob() {
		start = facts.StartedByHand
	}
	return s.facts.NotRunning(s.current, s.cfg, start, s.nodes.Load() != nil, time.Now())
}

// SetNodes makes these the nodes of the session's job; nil are none.
func (s *Session) SetNodes(nodes *jobnode.Run) { s.nodes.Store(nodes) }

// Reaches reports whether the login node connects to the main page by that name of a node.
func (s *Session) Reaches(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages.reaches(node)
}
