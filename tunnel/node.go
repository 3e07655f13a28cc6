package tunnel

import (
	"context"
	"errors"
	"net"
	"time"

	"tunctl/internal/api"
)

// Node is a compute node behind a host, for servers that listen only on the node. There
// are three ways onto it. They are tried in this order, but the one that worked for
// another node of the host comes first; the first that works is kept:
//
//	Our own SSH hop through the host. It needs no session on the host, and one login on
//	the node for all connections. The node must accept one of the person's keys; with
//	pam_slurm it does so while they have a job there.
//
//	ssh -W, run on the host. It needs a session of the host and a login on the node for
//	each connection. It uses the cluster's own trust, for a person who logs in to the
//	host by password.
//
//	srun --overlap, run on the host, with a relay inside the job. It needs one session of
//	the host and one job step for all connections (see jobSteps); and Slurm, and Python on
//	the node, but no sshd.
//
// If one way does not connect soon, the next is tried. A way whose login the node
// refused is never tried again: a Node is for one job, and sites ban repeated failed
// logins.
//
// [Node.OpenChannel] is for shells, commands and files inside the job.
type Node struct {
	wayFinder
	login  *Host
	hop    *nodeHop
	inside *inside
}

// errTargetSilent: the way works, but the target does not respond.
var errTargetSilent = errors.New("the node was reached, but nothing responded there")

// NodeOptions identify a node.
type NodeOptions struct {
	Names []string // its possible names, the likeliest first; at least one
	Job   string   // the Slurm job that runs there; "": srun is not tried
	// Cluster is the Slurm cluster of the job, if it is another than the host's own.
	Cluster string
	PBSJob  string // the job of PBS or Grid Engine that runs there, which have no srun; "": none
	// Notice is given what a person should know about the way into the job, each kind of
	// text at most once; nil: nobody is told.
	Notice func(text string)
}

// Node returns a node behind the host. It dials nothing.
func (h *Host) Node(o NodeOptions) *Node {
	limits, log := &h.pool.o.Limits, h.log.With("node", o.Names[0])
	n := &Node{login: h, hop: newNodeHop(h, o.Names)}
	onHost := &sshOnHost{host: h, names: o.Names, timeout: limits.NodeDial}
	n.wayFinder = newWayFinder("cannot connect to the node", limits, log,
		&way{name: "an SSH hop", dial: n.hop.dial},
		&way{name: "ssh on " + h.label(), limited: true, dial: onHost.dial})
	n.inside = newInside(n, o)
	if o.Job != "" {
		n.ways = append(n.ways, &way{name: stepWay, dial: n.inside.steps.relay.dial})
	}
	return n
}

// Dial connects to an address as the node sees it. Its errors are those of [Host.Dial],
// or say why no way onto the node works.
func (n *Node) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	for again := true; ; again = false {
		tried := false
		w, lost := n.find(ctx, n.login.nodeWay.get(), func(w *way) error {
			tried = true
			conn, err = w.dial(ctx, network, address)
			return n.check(w, err)
		})
		switch {
		case lost != nil:
			return nil, lost
		case tried:
			return conn, err
		}
		conn, err = w.dial(ctx, network, address)
		if !again || !isNoWay(err) {
			return conn, err
		}
		n.settle(nil, time.Time{})
	}
}

// check keeps a way by which a dial ended like this. The error is why it does not.
func (n *Node) check(w *way, err error) error {
	switch {
	case isNoWay(err): // it may wrap api.ErrRefused of the node's sshd
	case err == nil || errors.Is(err, api.ErrRefused) || errors.Is(err, errTargetSilent):
		n.log.Info("connected to the node", "way", w.name)
		n.settle(w, time.Time{})
		n.login.nodeWay.set(w.name)
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		w.slow = time.Now()
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
// them. Connections of other ways end separately.
func (n *Node) Close() {
	n.inside.close()
	n.hop.close()
}
