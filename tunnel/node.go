package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
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
	login  *Host
	log    *slog.Logger
	hop    *nodeHop
	ways   []way
	inside *inside

	finding chan struct{} // held while a caller looks for a way

	mu     sync.Mutex
	chosen *way
	pause  pause // after searches that found no way
}

// way is one way onto a node. Its dial fails with a *noWayError if the way itself does
// not work, and remembers that if it is final. Other errors are those of Host.Dial.
type way struct {
	name   string
	scarce bool // each connection takes a session
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	slow time.Time // when it last used up the time; guarded by Node.finding
}

// noWayError says that one way onto a node does not work, whatever listens there.
type noWayError struct {
	way string
	err error
}

func (e *noWayError) Error() string { return e.way + ": " + e.err.Error() }
func (e *noWayError) Unwrap() error { return e.err }

// isFinal reports whether a way that failed like this must not be tried again: the site
// counts refused logins.
func isFinal(err error) bool {
	switch classOf(err) {
	case classRefused, classNeedsPerson, classPermanent:
		return true
	}
	return false
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

// nodeWayFor is how long the way that worked for one node comes first for others. It
// ends because a cheaper way may work meanwhile, for example with a newly registered
// key.
const nodeWayFor = time.Hour

// nodeWay is the way that last worked for a node.
type nodeWay struct {
	name  string
	until time.Time
}

// recent is its name; "": it is too long ago.
func (w *nodeWay) recent() string {
	if time.Now().After(w.until) {
		return ""
	}
	return w.name
}

func (w *nodeWay) set(name string) {
	if w.recent() != name {
		*w = nodeWay{name, time.Now().Add(nodeWayFor)}
	}
}

// Node returns a node behind the host. It dials nothing.
func (h *Host) Node(o NodeOptions) *Node {
	n := &Node{login: h, log: h.log.With("node", o.Names[0]), hop: newNodeHop(h, o.Names), finding: make(chan struct{}, 1)}
	onHost := &sshOnHost{host: h, names: o.Names, timeout: h.pool.o.Limits.NodeDial}
	n.ways = []way{
		{name: "an SSH hop", dial: n.hop.dial},
		{name: "ssh on " + h.label(), scarce: true, dial: onHost.dial},
	}
	n.inside = newInside(n, o)
	if o.Job != "" {
		n.ways = append(n.ways, way{name: stepWay, dial: n.inside.steps.relay.dial})
	}
	return n
}

// Dial connects to an address as the node sees it. Its errors are those of [Host.Dial],
// or say why no way onto the node works.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	w, err := n.way()
	if err != nil {
		return nil, err
	}
	if w == nil {
		return n.find(ctx, network, address)
	}
	c, err := w.dial(ctx, network, address)
	if _, lost := errors.AsType[*noWayError](err); lost {
		n.settle(nil)
		return n.find(ctx, network, address)
	}
	return c, err
}

// Scarce reports whether each connection needs one of the host's few sessions.
func (n *Node) Scarce() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chosen != nil && n.chosen.scarce
}

// Close ends the job step and our own connection to the node, with all that goes through
// them. Connections of other ways end separately.
func (n *Node) Close() {
	n.inside.close()
	n.hop.close()
}

// find tries one way after another, one caller at a time: each try is a login that the
// site may count.
func (n *Node) find(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case n.finding <- struct{}{}:
		defer func() { <-n.finding }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w, err := n.way(); err != nil || w != nil {
		if err != nil {
			return nil, err
		}
		return w.dial(ctx, network, address)
	}
	var why []error
	for _, w := range n.order() {
		c, err := w.dial(ctx, network, address)
		_, bad := errors.AsType[*noWayError](err) // it may wrap api.ErrRefused of the node's sshd
		switch {
		case bad:
		case err == nil || errors.Is(err, api.ErrRefused) || errors.Is(err, errTargetSilent):
			n.log.Info("connected to the node", "way", w.name)
			n.settle(w)
			n.login.setNodeWay(w.name)
			return c, err
		case errors.Is(err, context.DeadlineExceeded):
			w.slow = time.Now()
			n.failed(err)
			return nil, err
		default:
			return nil, err
		}
		n.log.Debug("a way to the node failed", "way", w.name, "err", err)
		why = append(why, err)
	}
	err := noWays("cannot connect to the node", why)
	n.failed(err)
	return nil, err
}

// noWays says why none of the ways works, and what would help where srun is the last one.
func noWays(what string, why []error) error {
	var texts []string
	for _, err := range why {
		if text := err.Error(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	err := fmt.Errorf("%s: %s", what, strings.Join(texts, "; "))
	if slices.ContainsFunc(why, func(err error) bool { return errors.Is(err, errNoPython) }) {
		err = fmt.Errorf("%w; tunctl needs python3 (3.6 or newer) on the node, or an sshd there that accepts your key", err)
	}
	return err
}

// order is the order in which to try the ways: first the one that worked for another
// node, last those that used up the time, the latest of them at the end.
func (n *Node) order() []*way {
	best := n.login.lastNodeWay()
	list := make([]*way, len(n.ways))
	for i := range n.ways {
		list[i] = &n.ways[i]
	}
	slices.SortStableFunc(list, func(a, b *way) int {
		switch slower := a.slow.Compare(b.slow); {
		case slower != 0:
			return slower
		case a.name == best:
			return -1
		case b.name == best:
			return 1
		}
		return 0
	})
	return list
}

// lastNodeWay is the way that recently worked for a node of the host; "": none.
func (h *Host) lastNodeWay() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nodeWay.recent()
}

func (h *Host) setNodeWay(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodeWay.set(name)
}

// way is the one that works; nil: it must be found. The error is that of a recent
// search.
func (n *Node) way() (*way, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.chosen == nil && time.Now().Before(n.pause.until) {
		return nil, n.pause.err
	}
	return n.chosen, nil
}

func (n *Node) settle(w *way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chosen, n.pause = w, pause{}
}

func (n *Node) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pause.failed(err, &n.login.pool.o.Limits)
}
