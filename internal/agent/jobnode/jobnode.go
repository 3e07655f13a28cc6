// Package jobnode has the compute nodes of a job, for one run of it: the connections to them, which
// all who use a node share, the names by which the login node may dial them, and what the user
// should know about the way into the job. A run that is over never begins again.
package jobnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
	"tunctl/internal/gateway"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// Options are what a run needs.
type Options struct {
	Host   *tunnel.Host
	Runner remote.Runner // runs commands on the host
	Jobs   *jobwatch.Watcher
	// Open opens a node of the host, with what was learnt about the routes there.
	Open func(node.Options) *node.Node
	// Grace is how long the names of a node that are known may fail before others are looked up.
	Grace time.Duration
	// Site is the site of the host, if it has one, as it is now.
	Site func() (configs.Site, bool)
	// Held is called when what Run.Held or Run.Cells returns has changed.
	Held func()
	Log  *slog.Logger
}

// Run is one run of a job on its nodes.
type Run struct {
	Options
	run   context.Context //nolint:containedctx // done when the run is over
	end   context.CancelFunc
	names sync.Map // the other names of a node, a []string, once they were looked up

	mu     sync.Mutex
	job    api.Job
	server string                // the node of its server, if that is known
	page   api.Endpoint          // of its server, as it was last reached
	open   map[string]*node.Node // by name; each is connected when it is first used
	// notices are what the user should know about the way into the job. The first who runs
	// something there is told.
	notices []string
}

// New returns a run that begins now.
func New(o Options) *Run {
	n := &Run{Options: o, open: map[string]*node.Node{}}
	n.run, n.end = context.WithCancel(context.Background())
	return n
}

// SetJob sets the job as it was last seen. A scheduler that does not respond changes
// nothing.
func (n *Run) SetJob(job api.Job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if job.State != api.JobUnknown || n.job.ID == "" {
		n.job = job
	}
}

// Job is the job as it was last seen.
func (n *Run) Job() api.Job {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.job
}

// Machine returns a node of the job: by its name, by its number from 0, or the one that the job's
// server runs on for "". It is the host itself if that has no scheduler. All users of a node share
// one connection to it, which ends when the run is over.
func (n *Run) Machine(ctx context.Context, which string) (gateway.Machine, error) {
	name, err := n.find(which)
	if err != nil {
		return nil, err
	}
	if n.SameAsHost(name) {
		return n.Host, nil
	}
	return n.Node(ctx, name)
}

// Inside returns the node of the job's server. Commands there run through a relay, also if that is the host itself.
func (n *Run) Inside(ctx context.Context) (gateway.Machine, error) {
	name, err := n.find("")
	if err != nil {
		return nil, err
	}
	return n.Node(ctx, name)
}

// SameAsHost reports whether a node is the host that we are logged in to.
func (n *Run) SameAsHost(node string) bool {
	return node != "" && api.SameNode(node, n.Host.Status().LoginNode)
}

// find returns the name of a node: by its name, by its number from 0, or that of the
// server for "".
func (n *Run) find(which string) (string, error) {
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

// Node returns the node of that name, which is connected when it is first used.
func (n *Run) Node(ctx context.Context, name string) (*node.Node, error) {
	n.mu.Lock()
	known, job, page := n.open[name], n.job, n.page
	n.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var since time.Time // other names of the node are looked up
	reached := page.Reach == api.ReachLogin && api.SameNode(page.Host, name)
	if reached || n.SameAsHost(name) {
		since = time.Now() // this one is enough
	}
	o := node.Options{Names: n.DialNames(ctx, "", name, since), Notice: n.AddNotice, Held: n.Options.Held}
	if len(o.Names) == 0 {
		return nil, fmt.Errorf("%q is not the name of a node", name)
	}
	switch {
	case n.SameAsHost(name):
		o.OnHost, o.NoResume = true, true
	case n.Jobs.HasSteps(ctx):
		o.Job, o.Cluster = stepID(job), job.Cluster
	default:
		o.QsubJob = strings.Replace(job.ID, "[]", "["+job.Task+"]", 1) // an array's task has an id of its own
	}
	if ctx.Err() != nil { // the options may be incomplete
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run.Err() != nil {
		return nil, errRunOver
	}
	if n.open[name] == nil { // else another caller was faster
		n.open[name] = n.Open(o)
		n.open[name].SetServer(n.page.Port)
	}
	return n.open[name], nil
}

// ID is the id of the job for a step, which is of one task of an array.
func (n *Run) ID() string { return stepID(n.Job()) }

func stepID(job api.Job) string {
	if job.Task == "" {
		return job.ID
	}
	return job.ID + "_" + job.Task
}

// Close ends all connections to the nodes: the run is over.
func (n *Run) Close() {
	n.mu.Lock()
	n.end()
	open := n.open
	n.open = nil
	n.mu.Unlock()
	for _, node := range open {
		node.Close()
	}
}

// Cells are those of notebooks in the job whose page is gone, by the name of the relay that has told of them. A nil
// run has none.
func (n *Run) Cells() map[string]api.Cells {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]api.Cells{}
	for _, node := range n.open {
		maps.Copy(all, node.Cells())
	}
	return all
}

// Held is what the last lost connection meant for what runs inside the job; nil: none was lost.
func (n *Run) Held() *api.Held {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all api.Held
	for _, node := range n.open {
		all = all.Merge(node.Held())
	}
	if all.Since.IsZero() {
		return nil
	}
	return &all
}

// Ends is why what runs inside the job ends with the connection to the host; nil: it continues,
// as far as is known.
func (n *Run) Ends() error {
	n.mu.Lock()
	name := cmp.Or(n.server, n.job.Node)
	node := n.open[name]
	n.mu.Unlock()
	switch {
	case n.SameAsHost(name):
		return errOnHost
	case node == nil:
		return nil
	}
	return node.Ends()
}

var errOnHost = errors.New("the job runs on the host itself")

// Nodes is how many nodes the job has.
func (n *Run) Nodes() int { return len(jobwatch.Nodes(n.Job())) }

// Connected reports whether the host responds, as far as is known.
func (n *Run) Connected() bool {
	h := n.Host.Status()
	return h.State == api.HostUp && h.NotRespondingSince.IsZero()
}

// CanEnter reports whether programs run inside the job: it has steps, or is a process of the host.
func (n *Run) CanEnter(ctx context.Context) (bool, error) {
	_, err := n.Jobs.Scheduler(ctx)
	return n.Jobs.HasSteps(ctx) || n.Jobs.JobsAreProcesses(ctx), err
}

// Counted is what the scheduler has counted of the job's use.
func (n *Run) Counted(ctx context.Context) (usage.Reading, error) {
	job := n.Job()
	counted, err := n.Jobs.Usage(ctx, job.Ref())
	reading := usage.Reading{Clock: counted.Elapsed, CPU: counted.CPU, CPUs: counted.CPUs, Memory: counted.Memory, MemoryLimit: counted.MemoryLimit}
	if reading.Clock == 0 && !job.Start.IsZero() {
		reading.Clock = max(0, counted.At.Sub(job.Start))
	}
	return reading, err
}

// Context is done when the run is over.
func (n *Run) Context() context.Context { return n.run }

// AddNotice keeps a text for the user who next runs something inside the job.
func (n *Run) AddNotice(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = append(n.notices, text)
}

// TakeNotices returns what was not told yet.
func (n *Run) TakeNotices() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.notices
	n.notices = nil
	return list
}

// SetServer sets where the server of the main page was found, and how it is reached: its log may
// name one of the nodes. Programs inside the job get its environment.
func (n *Run) SetServer(announced string, page api.Endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.page = "", page
	for _, node := range n.open {
		node.SetServer(page.Port)
	}
	all := jobwatch.Nodes(n.job)
	if i := slices.IndexFunc(all, func(name string) bool { return api.SameNode(name, announced) }); i >= 0 {
		n.server = all[i]
	}
}

// ServerPort is that of the server whose environment programs inside the job get; 0: not known.
func (n *Run) ServerPort() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.page.Port
}

// DialNames are the names by which the login node may dial a node: an address in the log,
// the site's own names for nodes, those of the log and the scheduler, both short too, and
// its address once those have failed for a while.
func (n *Run) DialNames(ctx context.Context, announced, node string, since time.Time) []string {
	var list []string
	add := func(names ...string) {
		for _, name := range names {
			if name != "" && !api.IsLocal(name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	if isAddress(announced) {
		add(announced)
	}
	add(n.siteNames(ctx, cmp.Or(node, announced))...)
	add(announced, node)
	for _, name := range slices.Clone(list) {
		if !isAddress(name) {
			short, _, _ := strings.Cut(name, ".")
			add(short)
		}
	}
	if node != "" && time.Since(since) > n.Grace {
		add(n.lookUpNames(ctx, node)...)
	}
	return list
}

// siteNames are the names by which the login nodes of the site dial a node.
func (n *Run) siteNames(ctx context.Context, node string) []string {
	site, ok := n.Site()
	if !ok || api.IsLocal(node) || isAddress(node) {
		return nil
	}
	return site.DialNames(node, func() []string {
		return slices.DeleteFunc(slices.Clone(n.lookUpNames(ctx, node)), func(name string) bool { return !isAddress(name) })
	})
}

// lookUpNames looks up a node's other names and its address on the host, once.
func (n *Run) lookUpNames(ctx context.Context, node string) []string {
	if names, known := n.names.Load(node); known {
		return names.([]string)
	}
	names, err := jobwatch.NodeNames(ctx, n.Runner, node)
	if err != nil {
		n.Log.Debug("cannot read other names of the node", "node", node, "err", err)
		return nil
	}
	n.names.Store(node, names)
	return names
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
