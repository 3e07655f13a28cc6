package probe

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// Route is a way to an endpoint: the address, and who dials it. Of a job without an endpoint
// it is the way inside.
type Route struct {
	Endpoint api.Endpoint
	Dialer   forward.Dialer
	Limited  func() bool     // whether a connection takes a session of the host; nil: it does not
	Refused  chan<- struct{} // has the prober probe the endpoint again; nil: it does not
	// Upgrades dials for clients that ask for another protocol; nil: the Dialer does.
	Upgrades *Upgrades
	// Inside runs a command inside the job; nil: there is an endpoint.
	Inside func(context.Context) error
	// guessed is the node of an address that was not announced; nil: it was.
	guessed Node
}

// probe proves once that the route works.
func (r *Route) probe(ctx context.Context) error {
	if r.Inside != nil {
		return r.Inside(ctx)
	}
	if r.guessed != nil {
		return onceOwned(ctx, r.guessed, r.Dialer, r.Endpoint)
	}
	return Once(ctx, r.Dialer, r.Endpoint)
}

// Verify proves once more that the route works, for the user who wants to use it now. A server
// whose token or path is not known responds all the same.
func (r *Route) Verify(ctx context.Context) error {
	if err := r.probe(ctx); !isIncomplete(err) {
		return err
	}
	return nil
}

// Suspect has the prober probe the endpoint again.
func (r *Route) Suspect() { signal(r.Refused) }

// signal sends to a channel unless a signal is waiting there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Target is what a forward to the endpoint needs to know.
func (r *Route) Target() *forward.Target {
	network, address := dialAddress(r.Endpoint)
	t := &forward.Target{
		Dialer: refusalWatch{r.Dialer, r.Refused}, Network: network, Address: address,
		HTTP: strings.HasPrefix(r.Endpoint.Scheme, "http"), HasToken: !r.Endpoint.Token.IsZero(),
		Limited: r.Limited != nil && r.Limited(),
	}
	if r.Upgrades != nil {
		t.Upgrades = r.Upgrades
	}
	return t
}

// refusalWatch is a dialer that reports refused connections.
type refusalWatch struct {
	forward.Dialer
	refused chan<- struct{}
}

// Dial implements forward.Dialer.
func (w refusalWatch) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.Dialer.Dial(ctx, network, address)
	if errors.Is(err, api.ErrRefused) {
		signal(w.refused)
	}
	return conn, err
}

// firstRoute dials by the first of some routes that works. It is used by its pointer, since
// a forward compares its targets and a slice cannot be compared.
type firstRoute struct{ routes []Route }

// Dial implements forward.Dialer.
func (f *firstRoute) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var failures []error
	for _, r := range f.routes {
		conn, err := r.Dialer.Dial(ctx, network, r.Endpoint.Address())
		if err == nil {
			return conn, nil
		}
		if failures = append(failures, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

// Reaches are what is known about the ways to an endpoint before it is announced.
type Reaches struct {
	Config api.Reach   // of the session; final unless it is auto
	Site   []api.Reach // the site's order
	Last   api.Reach   // what worked last time
}

// order lists the ways to try now: announced is what the announcement calls for, and stuck whether
// the login node has failed to connect for a while. The node costs a login there, so it is tried
// only if the login node probably cannot connect: a server announces its address before it listens.
func (r Reaches) order(announced api.Reach, stuck bool) []api.Reach {
	switch {
	case r.Config != "" && r.Config != api.ReachAuto:
		return []api.Reach{r.Config}
	case announced == api.ReachHere:
		return []api.Reach{api.ReachHere}
	}
	list := slices.Clone(r.Site)
	if len(list) == 0 {
		list = []api.Reach{api.ReachLogin, api.ReachNode}
	}
	if announced == api.ReachNode && r.Last != api.ReachLogin {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
		list = append([]api.Reach{api.ReachNode}, list...)
	}
	if list[0] != api.ReachNode && announced != api.ReachNode && r.Last != api.ReachNode && !stuck {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
	}
	return list
}

// routes are the addresses to try for an endpoint, in order.
func (p *Prober) routes(ctx context.Context, t *Target, ep api.Endpoint, since time.Time) []Route {
	var list []Route
	for _, reach := range p.Job.Reaches().order(ep.Reach, time.Since(since) > p.Limits.NodeGrace) {
		if reach == api.ReachNode && p.Job.SameAsHost(t.Node) {
			reach = api.ReachHere // a machine without a scheduler: its loopback is the host's
		}
		by := Route{Dialer: p.Job.Host(), Refused: p.refused}
		var hosts []string
		var node Node
		switch reach {
		case api.ReachHere:
			hosts = []string{loopback(ep.Host)}
		case api.ReachNode:
			if t.Node == "" {
				continue // where the job runs is not known
			}
			var err error
			if node, err = p.Job.Node(ctx, t.Node); err != nil {
				continue // the run is over
			}
			by.Dialer, by.Limited = node, node.Limited
			hosts = addressesOnNode(ep.Host)
		default:
			hosts = p.Job.DialNames(ctx, ep.Host, t.Node, since)
		}
		if ep.Socket != "" {
			hosts = []string{""}
		}
		for i, host := range hosts {
			by.Endpoint = ep
			by.Endpoint.Host, by.Endpoint.Reach, by.Endpoint.NeedsNode = host, reach, false
			if i > 0 {
				by.guessed = node
			}
			list = append(list, by)
		}
	}
	return list
}

// addressesOnNode are the addresses to dial on the node itself, the announced one first.
func addressesOnNode(announced string) []string {
	if api.IsLocal(announced) {
		return []string{loopback(announced)}
	}
	return []string{announced, "127.0.0.1"}
}

// loopback is the loopback address to dial on a machine: "localhost" may mean ::1
// first, where the server does not listen.
func loopback(announced string) string {
	if announced == "::1" {
		return announced
	}
	return "127.0.0.1"
}
