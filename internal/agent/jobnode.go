package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/probe"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/jobwatch"
	"tunctl/tunnel"
	"tunctl/tunnel/forward"
	"tunctl/tunnel/node"
)

// machine is where programs run and connections begin: a host, or a node inside a job.
type machine interface {
	gateway.Host
	forward.Dialer
}

// jobMachine returns a node of the session's running job: by its name, by its number from
// 0, or the one that the job's server runs on for "". It is the host itself if that has no
// scheduler. All users of a node share one connection to it, which the session closes when
// the job ends or moves. It never brings a session up: the error says why there is no
// node, and what to run.
func (s *session) jobMachine(ctx context.Context, which string) (machine, error) {
	nodes, err := s.runningNodes()
	if err != nil {
		return nil, err
	}
	return nodes.machine(ctx, which)
}

// runningNodes are the nodes of the session's job, if it runs.
func (s *session) runningNodes() (*jobNodes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes != nil {
		if job := s.nodes.current(); job.State == api.JobRunning && job.Node != "" {
			return s.nodes, nil
		}
	}
	return nil, s.notRunningLocked()
}

// notRunningLocked says why nothing runs inside the session's job, and what to run.
func (s *session) notRunningLocked() *api.Error {
	start := facts.StartAgain(s.cfg)
	if s.byJob() {
		start = startedByHandHint
	}
	return s.facts.NotRunning(s.current, s.cfg, start, s.nodes != nil, time.Now())
}

// setNodes makes nodes those of the session's job; nil if it has none.
func (s *session) setNodes(nodes *jobNodes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = nodes
}

// jobNodes are the compute nodes of a job, for one run of it.
type jobNodes struct {
	session *session
	host    *tunnel.Host
	jobs    *jobwatch.Watcher
	run     context.Context //nolint:containedctx // done when the run is over
	end     context.CancelFunc
	names   sync.Map // the other names of a node, a []string, once they were looked up

	mu     sync.Mutex
	job    api.Job
	server string                // the node of its server, if that is known
	port   int                   // of its server; 0: not known
	open   map[string]*node.Node // by name; each is connected when it is first used
	// notices are what a person should know about the way into the job. The first who runs
	// something there is told.
	notices []string
}

func newJobNodes(s *session, host *tunnel.Host, jobs *jobwatch.Watcher) *jobNodes {
	n := &jobNodes{session: s, host: host, jobs: jobs, open: map[string]*node.Node{}}
	n.run, n.end = context.WithCancel(context.Background())
	return n
}

// setJob sets the job as it was last seen. A scheduler that does not respond changes
// nothing.
func (n *jobNodes) setJob(job api.Job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if job.State != api.JobUnknown || n.job.ID == "" {
		n.job = job
	}
}

// current is the job as it was last seen.
func (n *jobNodes) current() api.Job {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.job
}

// machine is jobMachine for a job that runs.
func (n *jobNodes) machine(ctx context.Context, which string) (machine, error) {
	name, err := n.find(which)
	if err != nil {
		return nil, err
	}
	if n.sameAsHost(name) {
		return n.host, nil
	}
	return n.node(ctx, name)
}

// sameAsHost reports whether a node is the host that we are logged in to.
func (n *jobNodes) sameAsHost(node string) bool {
	return node != "" && api.SameNode(node, n.host.Status().LoginNode)
}

// find returns the name of a node: by its name, by its number from 0, or that of the
// server for "".
func (n *jobNodes) find(which string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if which == "" {
		return cmp.Or(n.server, n.job.Node), nil
	}
	all := jobwatch.Nodes(n.job)
	i := slices.IndexFunc(all, func(name string) bool { return api.SameNode(name, which) })
	if number, err := strconv.Atoi(which); i < 0 && err == nil && number >= 0 && number < len(all) {
		i = number
	}
	if i < 0 {
		return "", api.Errorf(api.CodeUsage, "job %s has no node %q", n.job.ID, which).
			WithHint("its nodes: %s", listNodes(all))
	}
	return all[i], nil
}

// listNodes lists nodes by number and name; of many, the first.
func listNodes(all []string) string {
	const most = 16
	words := make([]string, 0, most)
	for i, name := range all[:min(len(all), most)] {
		words = append(words, fmt.Sprintf("%d %s", i, name))
	}
	if len(all) > most {
		words = append(words, fmt.Sprintf("… %d %s", len(all)-1, all[len(all)-1]))
	}
	return strings.Join(words, ", ")
}

// errRunOver: the job has ended or moved since it was looked up.
var errRunOver = errors.New("the job has ended, or moved to another node")

// node returns the node of that name, which is connected when it is first used.
func (n *jobNodes) node(ctx context.Context, name string) (*node.Node, error) {
	n.mu.Lock()
	known, job := n.open[name], n.job
	n.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var since time.Time // other names of the node are looked up
	n.session.mu.Lock()
	reached := n.session.pages.reaches(name)
	n.session.mu.Unlock()
	if reached {
		since = time.Now() // this one is enough
	}
	o := node.Options{Names: n.dialNames(ctx, "", name, since), Notice: n.addNotice}
	if len(o.Names) == 0 {
		return nil, fmt.Errorf("%q is not the name of a node", name)
	}
	if n.jobs.HasSteps(ctx) {
		o.Job, o.Cluster = slurmID(job), job.Cluster
	} else {
		o.PBSJob = job.ID
	}
	if ctx.Err() != nil { // the options may be incomplete
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.run.Err() != nil:
		return nil, errRunOver
	case n.open[name] == nil: // else another caller was faster
		n.open[name] = n.session.agent.hosts.Node(n.host, o)
		n.open[name].SetServer(n.port)
	}
	return n.open[name], nil
}

// probed is a job for its prober.
type probed struct{ nodes *jobNodes }

// probeOptions are those of a prober for a session's job.
func probeOptions(s *session, nodes *jobNodes) probe.Options {
	return probe.Options{Session: s.name, Job: probed{nodes}, Limits: s.agent.limits.Probe, Log: s.agent.log}
}

// Host implements probe.Job.
func (p probed) Host() probe.Host { return p.nodes.host }

// Node implements probe.Job.
func (p probed) Node(ctx context.Context, name string) (probe.Node, error) {
	return p.nodes.node(ctx, name)
}

// SameAsHost implements probe.Job.
func (p probed) SameAsHost(node string) bool { return p.nodes.sameAsHost(node) }

// DialNames implements probe.Job.
func (p probed) DialNames(ctx context.Context, announced, node string, since time.Time) []string {
	return p.nodes.dialNames(ctx, announced, node, since)
}

// Reaches implements probe.Job.
func (p probed) Reaches() probe.Reaches {
	s := p.nodes.session
	cfg := s.config()
	r := probe.Reaches{Config: cfg.Reach, Last: s.agent.store.Session(s.name).Reach}
	if site, ok := s.agent.settings.Site(cfg.Host); ok {
		r.Site = site.Reach
	}
	return r
}

// Machine implements probe.Job.
func (p probed) Machine(ctx context.Context) (probe.Machine, error) {
	return p.nodes.session.jobMachine(ctx, "")
}

// slurmID is the id of a job for a step, which is of one task of an array.
func slurmID(job api.Job) string {
	if job.Task == "" {
		return job.ID
	}
	return job.ID + "_" + job.Task
}

// close ends all connections to the nodes: the run is over.
func (n *jobNodes) close() {
	n.mu.Lock()
	n.end()
	open := n.open
	n.open = nil
	n.mu.Unlock()
	for _, node := range open {
		node.Close()
	}
}

// addNotice keeps a text for the person who next runs something inside the job.
func (n *jobNodes) addNotice(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = append(n.notices, text)
}

// containerNotice says that programs inside the session's job are not in the container of its
// server; "": there is none.
func (s *session) containerNotice() string {
	cfg := s.config().WithAnswers(s.known().With)
	if cfg.Builtin() == "" {
		return ""
	}
	site, _ := s.agent.settings.Site(cfg.Host)
	enter, ok := cfg.BuiltinJob(s.agent.settings.Config().Host(cfg.Host), site, site.Scheduler).Container()
	switch {
	case !ok:
		return ""
	case enter == "":
		return "this is outside the container that the job's server runs in"
	}
	return "this is outside the container that the job's server runs in; to enter it: " + enter
}

// takeNotices returns what was not told yet.
func (n *jobNodes) takeNotices() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.notices
	n.notices = nil
	return list
}

// setServer sets where the server of the main page was found: its log may name one of the
// nodes. Programs inside the job get its environment.
func (n *jobNodes) setServer(announced string, port int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.port = "", port
	for _, node := range n.open {
		node.SetServer(port)
	}
	all := jobwatch.Nodes(n.job)
	if i := slices.IndexFunc(all, func(name string) bool { return api.SameNode(name, announced) }); i >= 0 {
		n.server = all[i]
	}
}

// dialNames are the names by which the login node may dial a node: an address in the log,
// the site's own names for nodes, those of the log and the scheduler, both short too, and
// its address once those have failed for a while.
func (n *jobNodes) dialNames(ctx context.Context, announced, node string, since time.Time) []string {
	var list []string
	add := func(name string) {
		if name != "" && !probe.IsLocal(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if isAddress(announced) {
		add(announced)
	}
	for _, name := range n.siteNames(ctx, cmp.Or(node, announced)) {
		add(name)
	}
	add(announced)
	add(node)
	for _, name := range slices.Clone(list) {
		if !isAddress(name) {
			short, _, _ := strings.Cut(name, ".")
			add(short)
		}
	}
	if node != "" && time.Since(since) > n.session.agent.limits.Probe.NodeGrace {
		for _, name := range n.lookUpNames(ctx, node) {
			add(name)
		}
	}
	return list
}

// siteNames are the names by which the login nodes of the session's site dial a node.
func (n *jobNodes) siteNames(ctx context.Context, node string) []string {
	site, ok := n.session.agent.settings.Site(n.session.host())
	if !ok || probe.IsLocal(node) || isAddress(node) {
		return nil
	}
	return site.DialNames(node, func() []string {
		return slices.DeleteFunc(slices.Clone(n.lookUpNames(ctx, node)), func(name string) bool { return !isAddress(name) })
	})
}

// lookUpNames looks up a node's other names and its address on the host, once.
func (n *jobNodes) lookUpNames(ctx context.Context, node string) []string {
	if names, known := n.names.Load(node); known {
		return names.([]string)
	}
	names, err := jobwatch.NodeNames(ctx, hosts.Runner{Host: n.host}, node)
	if err != nil {
		n.session.agent.log.Debug("cannot read other names of the node", "node", node, "err", err)
		return nil
	}
	n.names.Store(node, names)
	return names
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
