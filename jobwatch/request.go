package jobwatch

import (
	"context"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch/sched"
)

// Request is what a job asks for, as far as its options say it; the scheduler's own defaults
// are not known. Zero is not said.
type Request struct {
	Name  string
	Time  time.Duration
	Nodes int
	CPUs  int // of all nodes together
	GPUs  int
	// Exclusive: no other job runs on its nodes.
	Exclusive bool
	Queues    []string // its queue, partition and QoS
}

// Size is the most that a submission may take, as far as its options say it. Zero is not
// said, or not understood.
type Size struct {
	Time  time.Duration // of each job
	Nodes int           // of all jobs of an array together
}

// RequestOf reads what a submission asks for from its arguments and its script.
func (b *Drafts) RequestOf(ctx context.Context, s Submission, script string) (Request, error) {
	d, o, err := b.demandOf(ctx, s, script, sched.LastValue)
	r := Request{Name: o.name, Time: d.Time, Nodes: d.Nodes, CPUs: d.CPUs, GPUs: d.GPUs, Exclusive: d.Exclusive, Queues: o.queues}
	return r, err
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (b *Drafts) SizeOf(ctx context.Context, s Submission, script string) (Size, error) {
	d, _, err := b.demandOf(ctx, s, script, sched.LargestValue)
	var size Size
	if d.Time < sched.TooMuch*time.Second {
		size.Time = d.Time
	}
	if d.Most < sched.TooMuch/max(d.ArraySize, 1) {
		size.Nodes = d.Most * d.ArraySize
	}
	return size, err
}

// placed is the name of a submission's job, and the queues that it asks for.
type placed struct {
	name   string
	queues []string
}

// demandOf reads what a submission asks for, and where.
func (b *Drafts) demandOf(ctx context.Context, s Submission, script string, counts sched.WhichValue) (d sched.Demand, p placed, err error) {
	scheduler, err := b.host.scheduler(ctx)
	if err != nil {
		return sched.Demand{}, p, err
	}
	kind := scheduler.Kind()
	words := kind.Directives.Words(script)
	if counts == sched.LargestValue && slices.ContainsFunc(slices.Concat(words, s.Args), isSeveralJobs) {
		return sched.Demand{}, p, nil
	}
	o := sched.OptionSet{Script: kind.Directives.Options(words), Args: kind.Directives.Options(s.Args), Counts: counts}
	if _, off := sched.LastOption(o.All(), kind.Directives.OthersOff); counts == sched.LargestValue && kind.Directives.Others != nil && !off {
		if line := kind.Directives.Others().FindString(script); line != "" {
			return sched.Demand{}, p, api.Errorf(api.CodeSubmit, "nothing was submitted: %s also reads the lines of the script that begin with %s, and tunctl does not", kind.Program, line).
				WithHint("remove these lines, or add --%s to args of the session", kind.Directives.OthersOff)
		}
	}
	p.name, _ = sched.LastOption(o.All(), kind.JobName)
	for _, option := range []string{"partition", "qos", "q"} {
		if name, ok := sched.LastOption(o.All(), option); ok {
			p.queues = append(p.queues, name)
		}
	}
	return scheduler.Demand(o), p, nil
}

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }
