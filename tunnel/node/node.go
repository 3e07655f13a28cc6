// Package node gets onto a compute node behind a host, and into a job there. It chooses
// among routes and remembers which one works; the connections themselves are those of a
// [tunnel.Link], and the relay inside a job is in package step.
package node

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel"
	"tunctl/tunnel/failure"
	"tunctl/tunnel/step"
)

// Node is a compute node behind a host, for servers that listen only on the node. There
// are three routes onto it. They are tried in this order, but the one that worked for
// another node of the host comes first; the first that works is kept:
//
//	Our own SSH hop through the host. It needs no session on the host, and one login on
//	the node for all connections. The node must accept one of the user's keys; with
//	pam_slurm it does so while they have a job there.
//
//	ssh -W, run on the host. It needs a session of the host and a login on the node for
//	each connection. It uses the cluster's own trust, for a user who logs in to the
//	host by password.
//
//	srun --overlap, run on the host, with a relay inside the job. It needs one session of
//	the host and one job step for all connections (see jobSteps); and Slurm, and Python on
//	the node, but no sshd.
//
// If one route does not connect soon, the next is tried. A route whose login the node
// refused is never tried again: a Node is for one job, and sites ban repeated failed
// logins.
//
// [Node.OpenChannel] is for shells, commands and files inside the job.
type Node struct {
	routeFinder
	login   tunnel.Link
	names   []string
	learned *Learned
	hop     *tunnel.Hop
	job     *jobAccess
}

// Options identify a node.
type Options struct {
	Names []string // its possible names, the likeliest first; at least one
	Job   string   // the Slurm job that runs there; "": srun is not tried
	// Cluster is the Slurm cluster of the job, if it is another than the host's own.
	Cluster string
	QsubJob string // the job of PBS or Grid Engine that runs there, which have no srun; "": none
	// OnHost says that the node is the host, which does not forward: the only route is a relay there.
	OnHost bool
	// NoResume has what runs inside the job end with the connection to the host.
	NoResume bool
	// Notice is given what the user should know about the route into the job, each kind of
	// text at most once; nil: nobody is told.
	Notice func(text string)
	// Records remember the relays that may outlive this program; nil: nobody does.
	Records Records
	// Journals is a folder for what pages have taken of their kernels; "": there is none.
	Journals string
	// Held is called when what [Node.Held] or [Node.Cells] returns has changed; nil: nobody is told.
	Held func()
	// Learned is what was learnt on other nodes of the host; nil: nothing.
	Learned *Learned
}

// New returns a node behind a host. It dials nothing.
func New(login tunnel.Link, o Options) *Node {
	limits, log := login.Limits(), login.Log().With("node", o.Names[0])
	n := &Node{login: login, names: o.Names, learned: cmp.Or(o.Learned, &Learned{}), hop: login.Hop(o.Names)}
	onHost := &sshOnHost{link: login, names: o.Names, timeout: limits.NodeDial}
	n.routeFinder = newRouteFinder("cannot connect to the node", limits, log,
		&route{name: "an SSH hop", dial: n.hop.Dial},
		&route{name: "ssh on " + login.Label(), limited: true, dial: onHost.dial})
	n.job = newJobAccess(n, o)
	if o.OnHost {
		n.routes = []*route{{name: "a command on " + login.Label(), dial: n.job.onHop.dial}}
	}
	if o.Job != "" {
		n.routes = append(n.routes, &route{name: stepRoute, dial: n.job.steps.relay.dial})
	}
	return n
}

// Dial connects to an address as the node sees it. Its errors are those of [tunnel.Host.Dial],
// or say why no route onto the node works.
func (n *Node) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	for again := true; ; again = false {
		tried := false
		r, lost := n.find(ctx, n.learned.onto.get(), func(r *route) error {
			tried = true
			conn, err = r.dial(ctx, network, address)
			return n.check(r, err)
		})
		switch {
		case lost != nil:
			return nil, lost
		case tried:
			return conn, err
		}
		conn, err = r.dial(ctx, network, address)
		if !again || !failure.IsRoute(err) {
			return conn, err
		}
		n.settle(nil, time.Time{})
	}
}

// check keeps a route by which a dial ended like this. The error is why it does not.
func (n *Node) check(r *route, err error) error {
	switch {
	case failure.IsRoute(err): // it may wrap api.ErrRefused of the node's sshd
	case err == nil || errors.Is(err, api.ErrRefused) || errors.Is(err, tunnel.ErrTargetSilent):
		n.log.Info("connected to the node", "way", r.name)
		n.settle(r, time.Time{})
		n.learned.onto.set(r.name)
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		r.slow = time.Now()
		n.failed(err)
	}
	return err
}

// Limited reports whether each connection needs one of the host's few sessions.
func (n *Node) Limited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chosen != nil && n.chosen.limited
}

// Close ends the job step and our own connection to the node, with all that goes through
// them. Connections of other routes end separately.
func (n *Node) Close() {
	n.job.close()
	n.hop.Close()
}

// Record is a relay that may outlive this program: where it is, and what ends it.
type Record struct {
	Names   []string `json:"names"` // as in Options
	Job     string   `json:"job,omitempty"`
	Cluster string   `json:"cluster,omitempty"`
	QsubJob string   `json:"pbsJob,omitempty"`
	OnHop   bool     `json:"onHop,omitempty"` // it is in a login on the node, not in a job step
	step.Ticket
}

// CanFollow reports whether the relay can be taken over for one that would be recorded like another.
func (r *Record) CanFollow(like Record) bool {
	share := slices.ContainsFunc(like.Names, func(name string) bool { return slices.Contains(r.Names, name) })
	return share && r.Job == like.Job && r.Cluster == like.Cluster && r.QsubJob == like.QsubJob && r.OnHop == like.OnHop && r.CanTakeOver()
}

// Options are those of the node that the relay is on.
func (r *Record) Options() Options {
	return Options{Names: r.Names, Job: r.Job, Cluster: r.Cluster, QsubJob: r.QsubJob}
}

// Hold is how long a relay waits for its client at most.
const Hold = step.Hold

// ErrKept is the error of [Node.EndRelay] if the relay keeps something for pages.
var ErrKept = step.ErrKept

// Records remember relays from their start to their end.
type Records interface {
	Add(r Record)
	// Remove is called at the end of a relay. Left says that it could not be told to end, so
	// that [Node.EndRelay] is to do that.
	Remove(r Record, left bool)
	// Left returns one that was left on a node of the same job, to be taken over, and has it not be ended.
	Left(like Record) (Record, bool)
}

// noRecords remember nothing.
type noRecords struct{}

func (noRecords) Add(Record)                 {}
func (noRecords) Remove(Record, bool)        {}
func (noRecords) Left(Record) (Record, bool) { return Record{}, false }

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
