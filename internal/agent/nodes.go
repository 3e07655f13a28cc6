package agent

import (
	"context"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/settings"
	"tunctl/internal/api"
	"tunctl/internal/words"
	"tunctl/jobwatch"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// newNodes are the nodes of the session's job for a run that begins now.
func newNodes(s *session, host *tunnel.Host, jobs *jobwatch.Watcher) *jobnode.Run {
	return jobnode.New(jobnode.Options{
		Host: host, Runner: hosts.Runner{Host: host}, Jobs: jobs, Grace: s.agent.limits.Probe.NodeGrace, Log: s.agent.log,
		Open: func(o node.Options) *node.Node { return s.agent.hosts.Node(host, o) },
		Site: func() (configs.Site, bool) { return s.agent.settings.Site(s.host()) },
		Reached: func(node string) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.pages.reaches(node)
		},
		Held: s.heldChanged,
	})
}

// heldNotice is how long what runs inside a job must have waited to be worth a notice.
const heldNotice = time.Minute

// heldChanged shows that what runs inside the job waits for a connection, has continued or was lost.
func (s *session) heldChanged() {
	s.Change(func(*facts.Facts) {})
	nodes := s.nodes.Load()
	if nodes == nil {
		return
	}
	h := nodes.Held()
	if h != nil && !h.Until.IsZero() && (h.Lost > 0 || h.Until.Sub(h.Since) >= heldNotice) {
		s.Notify("", s.name+": "+words.HeldOver(*h))
	}
}

// jobMachine returns a node of the session's running job, as [jobnode.Run.Machine] does. It never
// brings a session up: the error says why there is no node, and what to run.
func (s *session) jobMachine(ctx context.Context, which string) (jobnode.Machine, error) {
	nodes, err := s.runningNodes()
	if err != nil {
		return nil, err
	}
	return nodes.Machine(ctx, which)
}

// runningNodes are the nodes of the session's job, if it runs.
func (s *session) runningNodes() (*jobnode.Run, error) {
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
func (s *session) notRunningLocked() *api.Error {
	start := facts.StartAgain(s.cfg)
	if s.byJob() {
		start = facts.StartedByHand
	}
	return s.facts.NotRunning(s.current, s.cfg, start, s.nodes.Load() != nil, time.Now())
}

// containerNotice says that programs inside a session's job are not in the container of its
// server; "": there is none.
func containerNotice(known *settings.Settings, cfg *configs.Session) string {
	if cfg.Builtin() == "" {
		return ""
	}
	site, _ := known.Site(cfg.Host)
	enter, ok := cfg.BuiltinJob(known.Config().Host(cfg.Host), site, site.Scheduler).Container()
	switch {
	case !ok:
		return ""
	case enter == "":
		return "this is outside the container that the job's server runs in"
	}
	return "this is outside the container that the job's server runs in; to enter it: " + enter
}

// probed is a job for its prober.
type probed struct {
	session *session
	nodes   *jobnode.Run
}

// probeOptions are those of a prober for a session's job.
func probeOptions(s *session, nodes *jobnode.Run) probe.Options {
	return probe.Options{Session: s.name, Job: probed{s, nodes}, Limits: s.agent.limits.Probe, Log: s.agent.log}
}

// Host implements probe.Job.
func (p probed) Host() probe.Host { return p.nodes.Host }

// Node implements probe.Job.
func (p probed) Node(ctx context.Context, name string) (probe.Node, error) {
	return p.nodes.Node(ctx, name)
}

// SameAsHost implements probe.Job.
func (p probed) SameAsHost(node string) bool { return p.nodes.SameAsHost(node) }

// DialNames implements probe.Job.
func (p probed) DialNames(ctx context.Context, announced, node string, since time.Time) []string {
	return p.nodes.DialNames(ctx, announced, node, since)
}

// Reaches implements probe.Job.
func (p probed) Reaches() probe.Reaches {
	s := p.session
	cfg := s.Config()
	r := probe.Reaches{Config: cfg.Reach, Last: s.agent.store.Session(s.name).Reach}
	if site, ok := s.agent.settings.Site(cfg.Host); ok {
		r.Site = site.Reach
	}
	return r
}

// Machine implements probe.Job.
func (p probed) Machine(ctx context.Context) (probe.Machine, error) {
	return p.session.jobMachine(ctx, "")
}
