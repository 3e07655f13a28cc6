package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
)

// route is an address that an endpoint may answer at, and who dials it.
type route struct {
	endpoint api.Endpoint
	dialer   forward.Dialer
}

// reaches are what decides in which order the ways to an endpoint are tried.
type reaches struct {
	config api.Reach   // the person's word, which is final unless it is auto
	site   []api.Reach // the site's order
	log    api.Reach   // what the announcement calls for
	last   api.Reach   // what worked last time
	stuck  bool        // the login node has not got through for a while
}

// order lists the ways to try now. Onto the node costs a login there, so it waits
// until there is reason to think that the login node does not get through: a server
// says where it will listen before it does.
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

// reaches gathers what there is to know about the way to an endpoint.
func (p *prober) reaches(ep api.Endpoint, since time.Time) reaches {
	s := p.session
	s.mu.Lock()
	cfg := s.cfg
	s.mu.Unlock()
	r := reaches{
		config: cfg.Reach, log: ep.Reach, last: s.agent.store.Session(s.name).Reach,
		stuck: time.Since(since) > s.agent.limits.NodeGrace,
	}
	if site, ok := s.agent.configuredSite(cfg.Host); ok {
		r.site = site.Reach
	}
	return r
}

// routes are the addresses to try for an endpoint, in order.
func (p *prober) routes(ctx context.Context, a *aim, ep api.Endpoint, since time.Time) []route {
	var list []route
	for _, reach := range p.reaches(ep, since).order() {
		if reach == api.ReachNode && p.onHost(a.node) {
			reach = api.ReachHere // a plain machine: its loopback is the one we are on
		}
		dialer := forward.Dialer(p.host)
		var hosts []string
		switch reach {
		case api.ReachHere:
			hosts = []string{loopback(ep.Host)}
		case api.ReachNode:
			if a.node == "" {
				continue // nobody knows where the job runs
			}
			dialer = p.onto(ctx, a)
			hosts = within(ep.Host)
		default:
			hosts = p.names(ctx, ep.Host, a.node, since)
		}
		if ep.Socket != "" {
			hosts = []string{""}
		}
		for _, host := range hosts {
			to := ep
			to.Host, to.Reach, to.NeedsNode = host, reach, false
			list = append(list, route{to, dialer})
		}
	}
	return list
}

// onHost reports whether a job runs on the machine that we are logged in to.
func (p *prober) onHost(node string) bool {
	return node != "" && jobwatch.SameNode(node, p.host.Status().LoginNode)
}

// names are what the login node may dial a node by: as the log and the scheduler
// have it, short, and, once those have not worked for a while, by its address.
func (p *prober) names(ctx context.Context, announced, node string, since time.Time) []string {
	var list []string
	add := func(name string) {
		if name != "" && !isNowhere(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	add(announced)
	add(node)
	for _, name := range slices.Clone(list) {
		if _, err := netip.ParseAddr(name); err != nil {
			short, _, _ := strings.Cut(name, ".")
			add(short)
		}
	}
	if node != "" && time.Since(since) > p.session.agent.limits.NodeGrace {
		for _, name := range p.moreNames(ctx, node) {
			add(name)
		}
	}
	return list
}

// moreNames asks the host once for a node's other names and its address.
func (p *prober) moreNames(ctx context.Context, node string) []string {
	if p.named != node {
		more, err := jobwatch.NodeNames(ctx, runner{p.host}, node)
		if err != nil {
			p.session.agent.log.Debug("cannot read other names of the node", "node", node, "err", err)
			return nil
		}
		p.named, p.more = node, more
	}
	return p.more
}

// onto is the way onto the job's node.
func (p *prober) onto(ctx context.Context, a *aim) *tunnel.Node {
	if p.node != nil && p.nodeName == a.node && p.nodeJob == a.job {
		return p.node
	}
	p.leaveNode()
	o := tunnel.NodeOptions{Names: p.names(ctx, "", a.node, time.Time{})}
	if name, err := p.session.agent.watcher(p.session.host()).Scheduler(ctx); err == nil && name == "slurm" {
		o.Job = a.job
	}
	p.node, p.nodeName, p.nodeJob = p.host.Node(o), a.node, a.job
	return p.node
}

// leaveNode ends what was opened on a node.
func (p *prober) leaveNode() {
	if p.node != nil {
		p.node.Close()
		p.node = nil
	}
}

// within are the addresses to dial on the node itself.
func within(announced string) []string {
	if isNowhere(announced) {
		return []string{loopback(announced)}
	}
	return []string{announced, "127.0.0.1"}
}

// loopback is a machine's own address as it must be dialled there: "localhost" may
// mean ::1 first, where the server is not.
func loopback(announced string) string {
	if announced == "::1" {
		return announced
	}
	return "127.0.0.1"
}

// isNowhere reports whether an address leads nowhere but to the machine that says it.
func isNowhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || host == "hostname" || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}
