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

// Node is a compute node behind a host, for what listens only inside it. There are
// three ways onto one, tried in this order, or first the one that worked for another
// node of the host; the first that works is kept:
//
//	our own SSH hop through the host. Costs no session there, and one login on the
//	node for all connections. Needs a key of the person's that the node accepts;
//	where pam_slurm guards it, it lets in whoever has a job there.
//
//	ssh -W, run on the host. Costs a session of the host and a login on the node for
//	each connection. Uses the cluster's own trust, for a person who logs in to the
//	host by password.
//
//	srun --overlap, run on the host, with a relay inside the job. Costs a session of
//	the host and a job step for each connection. Needs Slurm, and no sshd on the node.
//
// A way that does not connect soon makes room for the next. One whose login the node
// refused is never tried again: a Node is for one job, and sites ban whoever repeats failed logins.
type Node struct {
	login *Host
	log   *slog.Logger
	hop   *hop
	ways  []way

	finding chan struct{} // held by who looks for a way

	mu       sync.Mutex
	chosen   *way
	failures int       // times that no way was found, in a row
	failure  error     // of the last time
	restTo   time.Time // not looked again before then
}

// way is one way onto a node. Its dial fails with a *noWayError when the way itself
// is no good, which it remembers if that is final, and otherwise as Host.Dial does.
type way struct {
	name   string
	scarce bool // each connection takes a session
	dial   func(ctx context.Context, network, address string) (net.Conn, error)

	slow time.Time // when it last took all the time that there was; of who holds Node.finding
}

// noWayError says that a node cannot be got onto in one way, whatever listens there.
type noWayError struct {
	way string
	err error
}

func (e *noWayError) Error() string { return e.way + ": " + e.err.Error() }
func (e *noWayError) Unwrap() error { return e.err }

// isFinal reports whether a way that failed so will be no better later: a refused login
// counts at the site, and the next one would too.
func isFinal(err error) bool {
	switch classOf(err) {
	case classRefused, classNeedsPerson, classPermanent:
		return true
	}
	return false
}

// errEndSilent says that a way onto a node stands, and that what it leads to does not
// answer.
var errEndSilent = errors.New("the node was reached, but nothing responded there")

// NodeOptions say which node is meant.
type NodeOptions struct {
	Names []string // what it may be called, the likeliest first; at least one
	Job   string   // the Slurm job that runs there; "" rules srun out
}

// nodeWayFor is how long the way that worked for one node is tried first for others. It
// may be a costlier one than a key that was registered since would allow.
const nodeWayFor = time.Hour

// nodeWay is the way that led onto a node lately.
type nodeWay struct {
	name  string
	until time.Time
}

// Node is a node behind the host. Nothing is dialled yet.
func (h *Host) Node(o NodeOptions) *Node {
	n := &Node{login: h, log: h.log.With("node", o.Names[0]), hop: newHop(h, o.Names), finding: make(chan struct{}, 1)}
	n.ways = []way{{name: "an SSH hop", dial: n.hop.dial}}
	onHost := &relays{host: h, names: o.Names, job: o.Job, patience: h.pool.o.Limits.NodeDial}
	n.ways = append(n.ways, way{name: "ssh on " + h.label(), scarce: true, dial: onHost.dialSSH})
	if o.Job != "" {
		n.ways = append(n.ways, way{name: "srun", scarce: true, dial: onHost.dialSrun})
	}
	return n
}

// Dial connects to an address as the node sees it. Its errors are those of
// [Host.Dial], or say why there is no way onto the node.
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

// Scarce reports whether each connection takes one of the host's few sessions.
func (n *Node) Scarce() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chosen != nil && n.chosen.scarce
}

// Close ends our own connection to the node; what goes another way ends with its
// own connection.
func (n *Node) Close() { n.hop.close() }

// find tries one way after another, one caller at a time: each is a login that
// somebody may count.
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
	var why []string
	for _, w := range n.order() {
		c, err := w.dial(ctx, network, address)
		_, bad := errors.AsType[*noWayError](err) // which may wrap a refusal of the node's sshd
		switch {
		case bad:
		case err == nil || errors.Is(err, api.ErrRefused) || errors.Is(err, errEndSilent):
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
		why = append(why, err.Error())
	}
	err := fmt.Errorf("cannot connect to the node: %s", strings.Join(why, "; "))
	n.failed(err)
	return nil, err
}

// order is the ways as they are to be tried: first the one that worked for another node,
// last those that took all the time, the latest of them at the very end.
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

// lastNodeWay is the way that led onto a node of the host lately; "" if none did.
func (h *Host) lastNodeWay() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().After(h.nodeWay.until) {
		return ""
	}
	return h.nodeWay.name
}

func (h *Host) setNodeWay(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodeWay.name != name || time.Now().After(h.nodeWay.until) {
		h.nodeWay = nodeWay{name, time.Now().Add(nodeWayFor)}
	}
}

// way is the one that works, or nil when it must be found; its error is that of
// a recent search that found none.
func (n *Node) way() (*way, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.chosen == nil && time.Now().Before(n.restTo) {
		return nil, n.failure
	}
	return n.chosen, nil
}

func (n *Node) settle(w *way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chosen, n.failures = w, 0
}

func (n *Node) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &n.login.pool.o.Limits
	n.failures++
	n.failure, n.restTo = err, time.Now().Add(backoff(n.failures, l.RetryMin, l.RetryMax))
}
