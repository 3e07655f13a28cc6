package run

import (
	"context"

	"tunctl/configs"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/settings"
	"tunctl/tunnel/node"
)

// newNodes are the nodes of the session's job for this run.
func (r *Run) newNodes() *jobnode.Run {
	return jobnode.New(jobnode.Options{
		Host: r.host, Runner: hosts.Runner{Host: r.host}, Jobs: r.jobs, Grace: r.limits.Probe.NodeGrace, Log: r.Log,
		Open:    func(o node.Options) *node.Node { return r.Hosts.Node(r.host, o) },
		Site:    func() (configs.Site, bool) { return r.Settings.Site(r.owner.Config().Host) },
		Reached: r.owner.Reaches,
		Held:    r.owner.HeldChanged,
	})
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
	*jobnode.Run
	of *Run
}

// probeOptions are those of a prober for a session's job.
func (r *Run) probeOptions() probe.Options {
	return probe.Options{Session: r.Name, Collect: r.owner.Config().Output, Job: probed{r.nodes, r}, Limits: r.limits.Probe, Log: r.Log}
}

// Host implements probe.Job.
func (p probed) Host() probe.Host { return p.Run.Host }

// Node implements probe.Job.
func (p probed) Node(ctx context.Context, name string) (probe.Node, error) {
	return p.Run.Node(ctx, name)
}

// Reaches implements probe.Job.
func (p probed) Reaches() probe.Reaches {
	r := p.of
	cfg := r.owner.Config()
	reaches := probe.Reaches{Config: cfg.Reach, Last: r.Store.Session(r.Name).Reach}
	if site, ok := r.Settings.Site(cfg.Host); ok {
		reaches.Site = site.Reach
	}
	return reaches
}
