package session

import (
	"context"
	"maps"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/latest"
	"tunctl/internal/usage"
	"tunctl/internal/words"
)

// followed is a session for the run of its job.
type followed struct{ *Session }

// SetNodes makes these the nodes of the session's job; nil are none.
func (s followed) SetNodes(nodes *jobnode.Run) { s.nodes.Store(nodes) }

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
	nodes := s.nodes.Load()
	if nodes == nil {
		s.Change(func(*facts.Facts) {})
		return
	}
	h, told := nodes.Held(), nodes.Cells()
	finished := keepCells(s.Session, nodes.Job().Ref(), told)
	var cells api.Cells
	for _, c := range told {
		cells = cells.Merge(c)
	}
	s.mu.Lock()
	before := s.told
	s.told.waiting = cells.Waiting
	if h != nil {
		s.told.until = h.Until
	}
	s.mu.Unlock()
	if h != nil && h.Until != before.until && !h.Until.IsZero() && (h.Lost > 0 || h.Until.Sub(h.Since) >= heldNotice) {
		s.Notify("", s.Name+": "+words.HeldOver(*h))
	}
	if text := words.Cells(s.Name, cells); text != "" && (finished || cells.Waiting > before.waiting) {
		s.Notify("", s.Name+": "+text)
	}
}

// keepCells remembers what relays in a job tell of cells, and reports whether more have finished than was known.
func keepCells(s *Session, job string, told map[string]api.Cells) (finished bool) {
	changeKept(s, func(kept map[string]state.KeptCells) {
		for relay, c := range told {
			was := kept[relay].Cells
			if c.Running > c.Waiting { // one notice for all that are queued
				all := c.Running + c.Finished
				c.Finished = min(c.Finished, was.Finished)
				c.Running = all - c.Finished
			}
			c.Waiting, c.Trouble = 0, ""
			finished = finished || c.Finished > was.Finished
			if c != was {
				kept[relay] = state.KeptCells{Cells: c, Job: job, At: time.Now().Round(0)}
			}
		}
	})
	return finished
}

// SetFinished takes in how many cells of a session that are over have output on the host.
func SetFinished(s *Session, n int) {
	told := s.nodes.Load().Cells()
	changeKept(s, func(kept map[string]state.KeptCells) {
		for relay, c := range kept {
			if _, ok := told[relay]; !ok { // else the relay notices itself
				c.Finished = 0
				kept[relay] = c
			}
			n -= c.Finished
		}
		kept[""] = state.KeptCells{Cells: api.Cells{Finished: max(0, n)}, At: time.Now().Round(0)}
	})
}

// changeKept changes what is remembered of cells whose output is kept.
func changeKept(s *Session, change func(map[string]state.KeptCells)) {
	_ = s.record(func(r *state.Session) {
		f := facts.Facts{Saved: *r}
		kept := f.KeptCells(time.Now())
		change(kept)
		maps.DeleteFunc(kept, func(_ string, c state.KeptCells) bool { return c.Cells == api.Cells{} })
		if r.Cells = kept; len(kept) == 0 {
			r.Cells = nil
		}
	})
}

// measured is a session for its meter.
type measured struct{ session *Session }

// Run implements usage.Source.
func (m measured) Run() usage.Run {
	nodes, err := m.session.RunningNodes()
	if err != nil {
		return nil
	}
	return nodes
}

// Traffic implements usage.Source.
func (m measured) Traffic() (in, out, conns int64) {
	m.session.mu.Lock()
	list := m.session.pages.forwards.Status()
	m.session.mu.Unlock()
	for _, f := range list {
		in, out, conns = in+f.BytesIn, out+f.BytesOut, conns+f.Conns
	}
	return in, out, conns
}

// IdleAfter implements usage.Source.
func (m measured) IdleAfter() time.Duration { return m.session.Config().Idle }

// PageUsed implements usage.Source.
func (m measured) PageUsed(ctx context.Context) (time.Time, error) {
	m.session.mu.Lock()
	r := m.session.pages.route
	m.session.mu.Unlock()
	return r.LastUsed(ctx)
}

// RunsCells names the extension by which the session's server runs cells itself; "": there is none.
func RunsCells(ctx context.Context, s *Session) string {
	s.mu.Lock()
	r := s.pages.route
	s.mu.Unlock()
	return r.RunsCells(ctx)
}

// SetIdle implements usage.Source. The notice follows the state that says so: without that, it is
// withdrawn.
func (m measured) SetIdle(text string) {
	idle := text != ""
	if m.session.Facts().Idle != idle {
		m.session.Change(func(f *facts.Facts) { f.Idle = idle })
	}
	if idle {
		m.session.Notify(api.NoticeIdle, text)
	}
}

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
		if job := nodes.Job(); job.State == api.JobRunning && job.Node != "" && !s.facts.Cancelled() {
			return nodes, nil
		}
	}
	return nil, s.notRunningLocked()
}

// AwaitNodes are the RunningNodes of a session, once a job that is known to run is followed again, as after a restart of the
// agent.
func AwaitNodes(ctx context.Context, s *Session) (*jobnode.Run, error) {
	settled := func() bool { _, err := s.RunningNodes(); return err == nil || !Rejoins(s) }
	for ctx.Err() == nil && !settled() {
		events := s.parts.Hub.Subscribe("", api.AnswersNone) // a new one: the hub drops those that are slow
		events.Await(ctx, settled)
		s.parts.Hub.Unsubscribe(events)
	}
	return s.RunningNodes()
}

// Rejoins reports whether a session connects to a job that runs, as far as is known, and does not follow it yet.
func Rejoins(s *Session) bool {
	now := s.Status()
	comes := now.State == api.SessionReconnecting || now.State == api.SessionConnecting || now.State == api.SessionStarting
	return comes && now.RunsJob()
}

// notRunningLocked says why nothing runs inside the session's job, and what to run.
func (s *Session) notRunningLocked() *api.Error {
	start := facts.StartAgain(s.cfg)
	if s.origin.isJob() {
		start = facts.StartedByHand
	}
	return s.facts.NotRunning(s.current, s.cfg, start, s.nodes.Load() != nil, time.Now())
}

// Extend gives the session's job more time, of its limit or without use.
func (s *Session) Extend(ctx context.Context, req api.ExtendRequest) (api.Job, error) {
	if !s.HasJob() {
		return api.Job{}, OnlyForwards(s.Name)
	}
	if req.Idle {
		if s.Config().EndIdle == 0 && s.Facts().IdleEnd.IsZero() { // a script of the user's own may do so, too
			return api.Job{}, api.Errorf(api.CodeUsage, "the job of %s does not end automatically: the session has no end_idle", s.Name)
		}
		nodes, err := s.RunningNodes()
		if err != nil {
			return api.Job{}, err
		}
		return nodes.Job(), use(ctx, nodes)
	}
	job, err := s.Jobs.Extend(ctx, time.Duration(req.Seconds)*time.Second)
	if err == nil {
		s.update(ctx, job)
	}
	return job, err
}

// useTimeout bounds how long a relay may take to start, and to make its mark.
const useTimeout = time.Minute

// inUse succeeds once a mark of use is on the node, which the relay makes for a command that it runs. The practice
// cluster has an id of its own.
const inUse = `exec sh -c 'for i in 1 2 3 4 5; do grep -q "@tunctl-inside-$(stat -Lc %u /proc/self)-" /proc/net/unix && exit; sleep 1; done; exit 1'`

// use has a job count as used now, so that end_idle does not end it soon.
func use(ctx context.Context, nodes *jobnode.Run) error {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	node, err := nodes.Inside(ctx)
	if err == nil {
		err = probe.RunInside(ctx, node, inUse)
	}
	if err == nil {
		return nil
	}
	return api.Errorf(api.CodeFailed, "could not mark job %s as used on its node: %v", nodes.ID(), err).Because(err).
		WithHint("end_idle may see no program of tunctl there: run a cell, or save your work")
}

// update passes a job that was queried apart from the watch to the session, and waits
// until it is shown.
func (s *Session) update(ctx context.Context, job api.Job) {
	events := s.parts.Hub.Subscribe("", api.AnswersNone)
	defer s.parts.Hub.Unsubscribe(events)
	s.acting.Lock() // one offer at a time
	running := s.InProgress()
	if running {
		latest.Offer(s.jobUpdates, job)
	}
	s.acting.Unlock()
	if !running {
		s.Jobs.SetJob(job)
		return
	}
	events.Await(ctx, func() bool {
		known := s.Facts()
		now := known.Job()
		return now == nil || now.End.Equal(job.End)
	})
}
