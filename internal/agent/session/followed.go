package session

import (
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
	"tunctl/internal/words"
)

// followed is a session for the run of its job.
type followed struct{ *Session }

// SetNodes makes these the nodes of the session's job; nil are none.
func (s followed) SetNodes(nodes *jobnode.Run) { s.nodes.Store(nodes) }

// Reaches reports whether the login node connects to the main page by that name of a node.
func (s followed) Reaches(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages.reaches(node)
}

// OpenPage makes a proven route the way to the session's page, if it has one, and opens its
// forward there once the session is ready.
func (s followed) OpenPage(proven *probe.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages.route, s.facts.Answers, s.facts.Doing = proven, true, facts.Doing{}
	if proven.Inside == nil {
		s.facts.Endpoint = &proven.Endpoint
	}
	_ = s.recordLocked(func(r *state.Session) {
		r.Submissions = r.Submissions.Change(r.Current(), func(x *state.Submission) { x.Served = true })
		if !proven.Endpoint.TakesOneClient() { // nobody has tried the way to it
			r.Reach = proven.Endpoint.Reach
		}
	})
}

// ClosePage takes the page away: nothing is known to serve it.
func (s followed) ClosePage(show func(*facts.Facts)) {
	s.Change(func(f *facts.Facts) {
		s.pages.route = nil
		f.Endpoint, f.Link, f.Answers = nil, "", false
		show(f)
	})
}

// SetOthers makes these the other pages that the job announces.
func (s followed) SetOthers(pages []*probe.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pages.setOthers(pages) {
		s.enterLocked()
	}
}

// heldNotice is how long what runs inside a job must have waited to be worth a notice.
const heldNotice = time.Minute

// HeldChanged shows that what runs inside the job waits for a connection, has continued or was lost.
func (s followed) HeldChanged() {
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
