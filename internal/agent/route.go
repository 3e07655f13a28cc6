package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/tunnel/forward"
)

// route is a way to an endpoint: the address, and who dials it. Of a job without an endpoint
// it is the way inside.
type route struct {
	endpoint api.Endpoint
	dialer   forward.Dialer
	limited  func() bool     // whether a connection takes a session of the host; nil: it does not
	refused  chan<- struct{} // has the prober probe the endpoint again; nil: it does not
	// inside runs a command inside the job; nil: there is an endpoint.
	inside func(context.Context) error
}

// probe proves once that the route works.
func (r *route) probe(ctx context.Context) error {
	if r.inside != nil {
		return r.inside(ctx)
	}
	return probe(ctx, r.dialer, r.endpoint)
}

// target is what a forward to the endpoint needs to know.
func (r *route) target() *forward.Target {
	t := &forward.Target{
		Dialer: refusalWatch{r.dialer, r.refused}, Network: "tcp", Address: r.endpoint.Address(),
		HTTP: strings.HasPrefix(r.endpoint.Scheme, "http"), HasToken: !r.endpoint.Token.IsZero(),
		Limited: r.limited != nil && r.limited(),
	}
	if r.endpoint.Socket != "" {
		t.Network = "unix"
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
type firstRoute struct{ routes []route }

// Dial implements forward.Dialer.
func (f *firstRoute) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var failures []error
	for _, r := range f.routes {
		conn, err := r.dialer.Dial(ctx, network, r.endpoint.Address())
		if err == nil {
			return conn, nil
		}
		if failures = append(failures, err); ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

// reaches decide in which order the ways to an endpoint are tried.
type reaches struct {
	config api.Reach   // of the session; final unless it is auto
	site   []api.Reach // the site's order
	log    api.Reach   // what the announcement calls for
	last   api.Reach   // what worked last time
	stuck  bool        // the login node has failed to connect for a while
}

// order lists the ways to try now. The node costs a login there, so it is tried only if
// the login node probably cannot connect: a server announces its address before it
// listens.
func (r reaches) order() []api.Reach {
	switch {
	case r.config != "" && r.config != api.ReachAuto:
		return []api.Reach{r.config}
	case r.log == api.ReachHere:
		return []api.Reach{api.ReachHere}
	}
	list := slices.Clone(r.site)
	if len(list) == 0 {
		list = []api.Reach{api.ReachLogin, api.ReachNode}
	}
	if r.log == api.ReachNode && r.last != api.ReachLogin {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
		list = append([]api.Reach{api.ReachNode}, list...)
	}
	if list[0] != api.ReachNode && r.log != api.ReachNode && r.last != api.ReachNode && !r.stuck {
		list = slices.DeleteFunc(list, func(x api.Reach) bool { return x == api.ReachNode })
	}
	return list
}

// reaches collects what is known about the way to an endpoint.
func (p *prober) reaches(ep api.Endpoint, since time.Time) reaches {
	s := p.session
	cfg := s.config()
	r := reaches{
		config: cfg.Reach, log: ep.Reach, last: s.agent.store.Session(s.name).Reach,
		stuck: time.Since(since) > s.agent.limits.NodeGrace,
	}
	if site, ok := s.agent.settings.Site(cfg.Host); ok {
		r.site = site.Reach
	}
	return r
}

// routes are the addresses to try for an endpoint, in order.
func (p *prober) routes(ctx context.Context, t *probeTarget, ep api.Endpoint, since time.Time) []route {
	var list []route
	for _, reach := range p.reaches(ep, since).order() {
		if reach == api.ReachNode && p.nodes.sameAsHost(t.node) {
			reach = api.ReachHere // a machine without a scheduler: its loopback is the host's
		}
		by := route{dialer: p.nodes.host, refused: p.refused}
		var hosts []string
		switch reach {
		case api.ReachHere:
			hosts = []string{loopback(ep.Host)}
		case api.ReachNode:
			if t.node == "" {
				continue // where the job runs is not known
			}
			node, err := p.nodes.node(ctx, t.node)
			if err != nil {
				continue // the run is over
			}
			by.dialer, by.limited = node, node.Limited
			hosts = addressesOnNode(ep.Host)
		default:
			hosts = p.nodes.dialNames(ctx, ep.Host, t.node, since)
		}
		if ep.Socket != "" {
			hosts = []string{""}
		}
		for _, host := range hosts {
			by.endpoint = ep
			by.endpoint.Host, by.endpoint.Reach, by.endpoint.NeedsNode = host, reach, false
			list = append(list, by)
		}
	}
	return list
}

// addressesOnNode are the addresses to dial on the node itself.
func addressesOnNode(announced string) []string {
	if isLocal(announced) {
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

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// isLocal reports whether an address means the machine itself.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || host == "hostname" || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}
