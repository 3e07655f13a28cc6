// Package hosts has what the agent knows of hosts, and asks them: their connections, which names
// and sites they have, who may log in how, the watchers of their schedulers, their jobs and quotas.
// It knows no session.
package hosts

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/passwords"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
)

// Options are what Hosts need.
type Options struct {
	Settings *settings.Settings
	Store    *state.Store
	Relays   string // the file of the relays that may outlive the agent; "": none
	Prompter tunnel.Prompter
	Log      *slog.Logger
	// Changed gets each new state of a host.
	Changed func(api.Host)
	// Practice, if set, confines the connections to the addresses of a practice cluster.
	Practice func(address string) bool
	// Network, if set, replaces the network of this computer.
	Network *tunnel.Network

	Connections tunnel.Limits
	Jobs        remote.Limits
	// Retry is how soon a command that was interrupted is tried again.
	Retry time.Duration
	// Quota is how long the output of a site's quota commands is repeated without running
	// them again.
	Quota time.Duration
}

// Hosts are all hosts, by the names that the user gives them.
type Hosts struct {
	// Pool has one connection for each host.
	Pool *tunnel.Pool

	opt      Options
	settings *settings.Settings
	store    *state.Store
	log      *slog.Logger
	envs     envs
	watchers watchers
	quotas   sync.Map // a knownQuota by the name of its host
	learned  sync.Map // what compute nodes have shown about the host before them, a *node.Learned by its *tunnel.Host
	relays   *relays
}

// New returns the hosts. Nothing is connected before Start.
func New(o Options) *Hosts {
	h := &Hosts{opt: o, settings: o.Settings, store: o.Store, log: o.Log, relays: &relays{file: o.Relays, log: o.Log}}
	h.watchers.byKey = map[watcherKey]*jobwatch.Watcher{}
	h.relays.open()
	self, err := os.Executable()
	if err != nil {
		h.log.Warn("cannot find this program, so ssh cannot ask for passwords", "err", err)
	}
	h.Pool = tunnel.NewPool(tunnel.Options{
		SSHConfig: h.settings.SSHConfig(),
		Prompter:  o.Prompter,
		Memory:    h.store,
		Passwords: passwords.New(h.store, h.envs.newest),
		Askpass:   self,
		Limits:    o.Connections,
		Network:   o.Network,
		Log:       h.log,
		Changed:   o.Changed,
		Envs:      h.envs.all,
		Target:    func(name string) string { return h.settings.Config().Host(name).SSH },
		Preset:    h.settings.Preset,
		Spelling:  h.spelling,
	})
	return h
}

// Start runs the connections and the job watchers in work until ctx ends.
func (h *Hosts) Start(ctx context.Context, work *sync.WaitGroup) {
	h.watchers.mu.Lock()
	h.watchers.ctx, h.watchers.work = ctx, work
	h.watchers.mu.Unlock()
	work.Go(func() { _ = h.Pool.Serve(ctx) }) // until ctx ends
}

// Reload compares the settings of the hosts with the config and the ssh config.
func (h *Hosts) Reload() { h.Pool.Reload(h.settings.SSHConfig()) }

// Login connects a host for a user, who answers its questions through the client.
func (h *Hosts) Login(ctx context.Context, host, client string) (api.Host, error) {
	if err := h.Allowed(ctx, host); err != nil {
		return api.Host{}, err
	}
	to := h.Pool.Host(host)
	to.UpFor(client)
	return to.Status(), nil
}

// Logout disconnects a host.
func (h *Hosts) Logout(host string) (api.Host, error) {
	if err := h.Known(host); err != nil {
		return api.Host{}, err
	}
	from := h.Pool.Host(host)
	if usedBy := from.Down(); len(usedBy) > 0 {
		return api.Host{}, stillUsedError(host, usedBy)
	}
	return from.Status(), nil
}

// stillUsedError is the error of a logout from a host whose connection other hosts use: a
// jump host, or the same account by another name.
func stillUsedError(host string, usedBy []string) *api.Error {
	labels, commands := make([]string, len(usedBy)), make([]string, len(usedBy))
	for i, name := range usedBy {
		labels[i], commands[i] = api.HostLabel(name), "`tunctl logout "+name+"`"
	}
	verb := "uses"
	if len(usedBy) > 1 {
		verb = "use"
	}
	return api.Errorf(api.CodeFailed, "the connection to %s stays up: %s still %s it",
		api.HostLabel(host), strings.Join(labels, ", "), verb).
		WithHint("run %s; the connection ends with its last user", strings.Join(commands, " and "))
}

// Node returns a compute node behind a host, which starts with what was learnt on other
// nodes there. It dials nothing.
func (h *Hosts) Node(host *tunnel.Host, o node.Options) *node.Node {
	learned, _ := h.learned.LoadOrStore(host, &node.Learned{})
	o.Learned = learned.(*node.Learned)
	name := host.Status().Alias
	site, _ := h.settings.Site(name)
	o.NoResume = !site.Resumes(h.settings.Config().Host(name))
	o.Records = relaysOf{name, h.relays}
	return node.New(host.Link(), o)
}
