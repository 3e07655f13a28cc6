// Package probe finds the way from an endpoint that a job announces to a route that is proven: a
// real request was answered over it. It knows in which order the ways are tried, which addresses
// mean something on which machine, and when to try again. It opens no forward and decides no
// state, and it is given the [Job] whose endpoint it is.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/latest"
	"tunctl/jobwatch/detect"
	"tunctl/jobwatch/joblog"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/step"
)

// Job is the job whose endpoint is probed: its machines, and what is known about the ways there.
// The agent's nodes of a job are one.
type Job interface {
	// Host is the login node.
	Host() Host
	// Node is a compute node by its name.
	Node(ctx context.Context, name string) (Node, error)
	// SameAsHost reports whether a node is the host that we are logged in to.
	SameAsHost(node string) bool
	// DialNames are the names by which the login node may dial a node: of the log, of the
	// scheduler, and others if those have failed since a while ago.
	DialNames(ctx context.Context, announced, node string, since time.Time) []string
	// Reaches are what config, site and the last time say about the way to its endpoint.
	Reaches() Reaches
	// Machine is a node of the job; "" is the one of its server.
	Machine(ctx context.Context, which string) (gateway.Machine, error)
}

// Host is a connection to a login node. A tunnel.Host is one.
type Host interface {
	forward.Dialer
	Status() api.Host
	Changed() <-chan struct{}
}

// Node is a connection to a compute node. A node.Node is one.
type Node interface {
	gateway.Machine
	// Limited reports whether a connection takes a session of the host.
	Limited() bool
	// DialInside connects from inside the job, where a connection outlives the one to the host.
	DialInside(ctx context.Context, network, address string, first []byte) (net.Conn, error)
	// DialKernel does the same for a page's WebSocket to its kernel, or continues one that was kept.
	DialKernel(ctx context.Context, network, address string, first []byte, k step.Kernel, verify func() error) (*step.KernelConn, error)
}

// Limits bound how long and how often is probed.
type Limits struct {
	// Request is how long one request to an endpoint may take, Every how soon the next follows
	// while it does not respond, Slow the same after a minute.
	Request time.Duration
	Every   time.Duration
	Slow    time.Duration
	// TokenGrace is how long to wait for the token of a server in its log before the
	// session is ready with the server's login page.
	TokenGrace time.Duration
	// NodeGrace is how long the login node may fail to connect to an endpoint before
	// the compute node itself is tried, NodeRequest how long one request may take then,
	// including the login on the node.
	NodeGrace   time.Duration
	NodeRequest time.Duration
}

// DefaultLimits are gentle to nodes and servers.
func DefaultLimits() Limits {
	return Limits{
		Request: 10 * time.Second, Every: time.Second, Slow: 10 * time.Second, TokenGrace: 15 * time.Second,
		NodeGrace: 5 * time.Second, NodeRequest: 45 * time.Second,
	}
}

// Options are what a prober needs.
type Options struct {
	Session string // for the log, and for the output of its cells
	Collect bool   // what cells print while their page is closed
	Job     Job
	Limits  Limits
	Log     *slog.Logger
}

// Target is what to prove: the endpoint that the log announced, or that a command can
// be run inside the job; and where the job runs.
type Target struct {
	Finding detect.Finding
	Shell   bool // there is no endpoint
	Job     string
	Node    string
	Files   *joblog.RuntimeFiles
}

// sameAs reports whether two targets are one announcement.
func (t *Target) sameAs(o *Target) bool {
	return t.Node == o.Node && t.Finding.Endpoint == o.Finding.Endpoint && t.Finding.Ended == o.Finding.Ended
}

// Prober proves that an announced endpoint answers through the connection before the
// session is called ready, and proves it again after the connection was lost.
type Prober struct {
	Options
	target  *Target      // as last set; of the caller of SetTarget
	targets chan *Target // to Serve
	results chan Result
	refused chan struct{} // receives when the user's connection was refused

	// Of Serve or Prove alone:
	last            *Upgrades // of the page that answered last
	incompleteSince time.Time // when a server first answered whose token or path is not known yet
}

// Result is what a Prober found out: a proven route, or why there is none.
type Result struct {
	Target       *Target
	Route        *Route // nil: the target does not respond
	Doing        string // what to show then
	Suspected    bool   // the route was proven before, and a connection over it failed
	Disconnected bool   // the proof ended because the connection to the host was lost
}

// New returns a prober without a target.
func New(o Options) *Prober {
	return &Prober{Options: o, targets: make(chan *Target, 1), results: make(chan Result), refused: make(chan struct{}, 1)}
}

// SetTarget sets what to prove; nil for nothing. The same announcement again changes
// nothing.
func (p *Prober) SetTarget(t *Target) {
	if t != nil && p.target != nil && t.sameAs(p.target) {
		return
	}
	p.target = t
	latest.Offer(p.targets, t)
}

// Target is what to prove, as last set.
func (p *Prober) Target() *Target { return p.target }

// Results are what Serve finds out.
func (p *Prober) Results() <-chan Result { return p.results }

// Serve probes until the target answers, then waits for a new target, a lost connection
// or a refused one. It goes on with a server that has stopped by its log: that may have meant
// something else.
func (p *Prober) Serve(ctx context.Context) {
	var target *Target
	var since time.Time
	proven, suspected := false, false
	for {
		changed := p.Job.Host().Changed()
		up := p.Job.Host().Status().State == api.HostUp
		if !up && proven {
			proven = false
			p.send(ctx, Result{Disconnected: true})
		}
		var retry <-chan time.Time
		if target != nil && up && (!proven || target.Finding.Ended) {
			result := p.Prove(ctx, target, since)
			if proven = result.Route != nil; !proven || target.Finding.Ended {
				retry = time.After(p.pause(target, since))
			}
			result.Suspected = suspected && !proven
			suspected = false
			p.send(ctx, result)
		}
		select {
		case target = <-p.targets: // what answered stays open until the new target was probed, which is at once
			since, proven, p.incompleteSince = time.Now(), false, time.Time{}
		case <-p.refused:
			if proven {
				since, proven, suspected, p.incompleteSince = time.Now(), false, true, time.Time{}
			}
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Prober) send(ctx context.Context, r Result) {
	select {
	case p.results <- r:
	case <-ctx.Done():
	}
}

// pause is how long to wait before the next probe: a server comes up within seconds of
// its announcement, or takes long. A command inside the job may cost a step or a login.
func (p *Prober) pause(t *Target, since time.Time) time.Duration {
	every, slow := p.Limits.Every, p.Limits.Slow
	if t.Shell || t.Finding.Ended { // this one answers
		slow *= 6
	}
	if t.Shell {
		every = p.Limits.Slow
	}
	if time.Since(since) < time.Minute {
		return every
	}
	return slow
}

// Prove probes the target once over each route that may lead there.
func (p *Prober) Prove(ctx context.Context, t *Target, since time.Time) Result {
	if t.Shell {
		inside := Route{Refused: p.refused, Inside: func(ctx context.Context) error {
			machine, err := p.Job.Machine(ctx, "")
			if err != nil {
				return err
			}
			return RunInside(ctx, machine, "true")
		}}
		if err := p.probeRoute(ctx, inside); err != nil {
			return Result{Target: t, Doing: fmt.Sprintf("no command runs inside job %s on %s yet: %v", t.Job, t.Node, err)}
		}
		return Result{Target: t, Route: &inside}
	}
	ep, err := p.resolve(ctx, t, since)
	if err != nil {
		return p.unproven(t, ep, err)
	}
	if ep.TakesOneClient() {
		// It must not be probed: the user's own connection tries the routes, all of them, as
		// after a long time.
		all := p.routes(ctx, t, ep, time.Time{})
		if len(all) == 0 {
			return p.unproven(t, ep, errNoNode)
		}
		first := all[0]
		first.Dialer, first.Refused = &firstRoute{all}, nil // a probe after a refusal would find nothing out
		return Result{Target: t, Route: &first}
	}
	works, failed, err := p.try(ctx, p.routes(ctx, t, ep, since), since)
	switch {
	case works != nil:
		p.findExposure(ctx, t, &works.Endpoint)
		works.Upgrades = p.upgrades(ctx, t, ep, *works)
		return Result{Target: t, Route: works}
	case err == nil:
		return p.unproven(t, ep, errNoNode)
	}
	return p.unproven(t, failed, err)
}

// try probes the routes in order, and returns the first that works; else what was tried on
// the node, or first. A server that just announced itself and refuses on its own node does
// not listen yet: the other routes can prove no more.
func (p *Prober) try(ctx context.Context, routes []Route, since time.Time) (works *Route, failed api.Endpoint, err error) {
	early := time.Since(since) < p.Limits.NodeGrace
	refused := false // on the node
	for _, r := range routes {
		onNode := r.Endpoint.Reach == api.ReachNode
		if refused && early && !onNode {
			break
		}
		fault := p.probeRoute(ctx, r)
		if fault == nil {
			return &r, failed, nil
		}
		if err == nil || onNode {
			failed, err = r.Endpoint, fault
		}
		refused = refused || onNode && errors.Is(fault, errNoListener)
		if ctx.Err() != nil || errors.Is(fault, api.ErrDown) {
			break
		}
	}
	return nil, failed, err
}

// exposureTimeout bounds the connection to a page that is not meant to be reached from
// outside its node. The user waits meanwhile.
const exposureTimeout = 2 * time.Second

// findExposure finds out whether a page without a password is open to the cluster's network,
// because its server listens on all addresses of the node.
func (p *Prober) findExposure(ctx context.Context, t *Target, ep *api.Endpoint) {
	switch {
	case ep.Exposure == "" || ep.Socket != "":
		return
	case ep.Reach == api.ReachLogin: // the login node has reached it
		ep.Exposure = api.ExposureNetwork
		return
	case ep.Reach != api.ReachNode:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exposureTimeout)
	defer cancel()
	for _, name := range p.Job.DialNames(ctx, "", t.Node, time.Now()) {
		conn, err := p.Job.Host().Dial(ctx, "tcp", net.JoinHostPort(name, strconv.Itoa(ep.Port)))
		if err == nil {
			_ = conn.Close()
			ep.Exposure = api.ExposureNetwork
			return
		}
	}
}

// errNoNode is why there is no route.
var errNoNode = errors.New("the node of the job is not known yet")

// unproven is the result for a target that does not respond.
func (p *Prober) unproven(t *Target, ep api.Endpoint, err error) Result {
	p.Log.Debug("endpoint does not respond", "session", p.Session, "address", ep.Address(), "reach", ep.Reach, "err", err)
	where := ep.Address()
	if ep.Reach == api.ReachNode && t.Node != "" {
		where += " on " + t.Node
	}
	return Result{Target: t, Doing: fmt.Sprintf("%s does not respond yet: %v", where, err)}
}

// probeRoute probes the endpoint over one route. A server whose token or path is not in
// its log is ready after a while all the same: it has a login page. The while begins
// with its first response: a server on a busy node may take minutes to start, and its
// log line comes right after.
func (p *Prober) probeRoute(ctx context.Context, r Route) error {
	limit := p.Limits.Request
	if r.Endpoint.Reach == api.ReachNode || r.Inside != nil {
		limit = p.Limits.NodeRequest
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := r.probe(ctx)
	if !isIncomplete(err) {
		return err
	}
	p.incompleteSince = cmp.Or(p.incompleteSince, time.Now())
	if time.Since(p.incompleteSince) > p.Limits.TokenGrace {
		return nil
	}
	return err
}

// resolve turns an announcement into an endpoint. It reads the runtime file where the
// log leaves doubt.
func (p *Prober) resolve(ctx context.Context, t *Target, since time.Time) (api.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Limits.Request)
	defer cancel()
	f := t.Finding
	if f.Doubt {
		f = t.Files.Correct(ctx, f, time.Since(since) > p.Limits.TokenGrace)
	}
	ep := f.Endpoint
	if f.Doubt && f.RuntimeFile != "" && f.App != "jupyter" && time.Since(since) < p.Limits.TokenGrace {
		return ep, ErrTokenUnknown // a network file system shows the log before the file with the password
	}
	if ep.Port == 0 && ep.Socket == "" {
		return ep, errors.New("the port of the server is not known yet")
	}
	return ep, nil
}
