package node

import (
	"context"
	"io"

	"tunctl/tunnel/step"
)

// Record is a relay that may outlive this program: where it is, and what ends it.
type Record struct {
	Names   []string `json:"names"` // as in Options
	Job     string   `json:"job,omitempty"`
	Cluster string   `json:"cluster,omitempty"`
	QsubJob string   `json:"pbsJob,omitempty"`
	OnHop   bool     `json:"onHop,omitempty"` // it is in a login on the node, not in a job step
	step.Ticket
}

// Options are those of the node that the relay is on.
func (r *Record) Options() Options {
	return Options{Names: r.Names, Job: r.Job, Cluster: r.Cluster, QsubJob: r.QsubJob}
}

// Hold is how long a relay waits for its client at most.
const Hold = step.Hold

// Records remember relays from their start to their end.
type Records interface {
	Add(r Record)
	// Remove is called at the end of a relay. Left says that it could not be told to end, so
	// that [Node.EndRelay] is to do that.
	Remove(r Record, left bool)
}

// noRecords remember nothing.
type noRecords struct{}

func (noRecords) Add(Record)          {}
func (noRecords) Remove(Record, bool) {}

// record makes the records of relays on the node.
func (o *Options) record(onHop bool) func(step.Ticket) Record {
	return func(t step.Ticket) Record {
		return Record{Names: o.Names, Job: o.Job, Cluster: o.Cluster, QsubJob: o.QsubJob, OnHop: onHop, Ticket: t}
	}
}

// EndRelay ends a relay of the node that was left, with what it runs. It returns nil also if
// the relay has ended.
func (n *Node) EndRelay(ctx context.Context, r Record) error {
	relay := n.job.onHop
	if !r.OnHop {
		relay = n.job.steps.relay
	}
	_, err := relay.byAnyWay(ctx, func(ctx context.Context, process io.ReadWriteCloser) error { return step.End(ctx, process, r.Ticket) })
	return err
}
