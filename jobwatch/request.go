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
	sched.Demand
	Name   string
	Queues []string // its queue, partition and QoS
}

// Size is the most that a submission may take, as far as its options say it. Zero is not
// said, or not understood.
type Size struct {
	Time  time.Duration // of each job
	Nodes int           // of all jobs of an array together
}

// RequestOf reads what a submission asks for from its arguments and its script.
func (b *Drafts) RequestOf(ctx context.Context, s Submission, script string) (Request, error) {
	return b.read(ctx, s, script, sched.LastValue)
}

// SizeOf reads the size of a submission from its arguments and its script. Unlike RequestOf
// it is never too small: of an option that a script repeats, the largest value counts.
func (b *Drafts) SizeOf(ctx context.Context, s Submission, script string) (Size, error) {
	d, err := b.read(ctx, s, script, sched.LargestValue)
	var size Size
	if d.Time < sched.TooMuch*time.Second {
		size.Time = d.Time
	}
	if d.Most < sched.TooMuch/max(d.ArraySize, 1) {
		size.Nodes = d.Most * d.ArraySize
	}
	return size, err
}

// read reads what a submission asks for. counts says which value of a repeated option does.
func (b *Drafts) read(ctx context.Context, s Submission, script string, counts sched.WhichValue) (r Request, err error) {
	scheduler, err := b.host.scheduler(ctx)
	if err != nil {
		return r, err
	}
	kind := scheduler.Kind()
	words := kind.Directives.Words(script)
	if counts == sched.LargestValue && slices.ContainsFunc(slices.Concat(words, s.Args), isSeveralJobs) {
		return r, nil
	}
	o := sched.OptionSet{Script: kind.Directives.Options(words), Args: kind.Directives.Options(s.Args), Counts: counts}
	if _, off := sched.LastOption(o.All(), kind.Directives.OthersOff); counts == sched.LargestValue && kind.Directives.Others != nil && !off {
		if line := kind.Directives.Others().FindString(script); line != "" {
			return r, api.Errorf(api.CodeSubmit, "nothing was submitted: %s also reads the lines of the script that begin with %s, and tunctl does not", kind.Program, line).
				WithHint("remove these lines, or add --%s to args of the session", kind.Directives.OthersOff)
		}
	}
	r.Name, _ = sched.LastOption(o.All(), kind.JobName)
	for _, option := range []string{"partition", "qos", "q"} {
		if name, ok := sched.LastOption(o.All(), option); ok {
			r.Queues = append(r.Queues, name)
		}
	}
	r.Demand = scheduler.Demand(o)
	return r, nil
}

// isSeveralJobs recognises what separates the jobs of a heterogeneous job of Slurm.
func isSeveralJobs(word string) bool { return word == "hetjob" || word == "packjob" || word == ":" }
