package session

import (
	"context"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/jobnode"
	"tunctl/internal/api"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
)

// measured is a session for its meter.
type measured struct{ session *Session }

// Run implements usage.Source.
func (m measured) Run() usage.Run {
	nodes, err := m.session.RunningNodes()
	if err != nil {
		return nil
	}
	return measuredRun{nodes}
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
	if r == nil {
		return time.Time{}, nil
	}
	return r.LastUsed(ctx)
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

// measuredRun is a run of a session's job for its meter.
type measuredRun struct{ nodes *jobnode.Run }

// Job implements usage.Run.
func (r measuredRun) Job() api.Job { return r.nodes.Job() }

// ID implements usage.Run.
func (r measuredRun) ID() string { return r.nodes.ID() }

// Nodes implements usage.Run.
func (r measuredRun) Nodes() int { return len(jobwatch.Nodes(r.nodes.Job())) }

// Connected implements usage.Run.
func (r measuredRun) Connected() bool {
	h := r.nodes.Host.Status()
	return h.State == api.HostUp && h.NotRespondingSince.IsZero()
}

// CanEnter implements usage.Run: into a job that has steps, or on a host without a scheduler.
func (r measuredRun) CanEnter(ctx context.Context) (bool, error) {
	jobs := r.nodes.Jobs
	_, err := jobs.Scheduler(ctx)
	return jobs.HasSteps(ctx) || jobs.JobsAreProcesses(ctx), err
}

// Machine implements usage.Run.
func (r measuredRun) Machine(ctx context.Context) (usage.Machine, error) {
	return r.nodes.Machine(ctx, "")
}

// Counted implements usage.Run.
func (r measuredRun) Counted(ctx context.Context) (usage.Reading, error) {
	job := r.nodes.Job()
	counted, err := r.nodes.Jobs.Usage(ctx, job.Ref())
	reading := usage.Reading{Clock: counted.Elapsed, CPU: counted.CPU, CPUs: counted.CPUs, Memory: counted.Memory, MemoryLimit: counted.MemoryLimit}
	if reading.Clock == 0 && !job.Start.IsZero() {
		reading.Clock = max(0, counted.At.Sub(job.Start))
	}
	return reading, err
}
