// Package hosts has what the agent knows of hosts, and asks them: their connections, which names
// and sites they have, who may log in how, the watchers of their schedulers, their jobs and quotas.
// It knows no session.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/internal/agent/passwords"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
	"tunctl/internal/lists"
	"tunctl/internal/suggest"
	"tunctl/jobwatch"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
	"tunctl/tunnel/node"
	"tunctl/tunnel/sshconfig"
)

// Options are what Hosts need.
type Options struct {
	Settings *settings.Settings
	Store    *state.Store
	Relays   string // the file of the relays that may outlive the agent
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
	envs     envs
	watchers watchers
	quotas   sync.Map // the last api.QuotaResponse of a host, by its name
	learned  sync.Map // what compute nodes have shown about the host before them, a *node.Learned by its *tunnel.Host
	relays   *relays

	passwords *passwords.Passwords
	keys      sync.Mutex // held while a key is made, installed or removed
}

// New returns the hosts. Nothing is connected before Start.
func New(o Options) *Hosts {
	h := &Hosts{opt: o, relays: openRelays(o.Relays, o.Log)}
	h.watchers.byKey = map[watcherKey]*jobwatch.Watcher{}
	self, err := os.Executable()
	if err != nil {
		h.opt.Log.Warn("cannot find this program, so ssh cannot ask for passwords", "err", err)
	}
	h.passwords = passwords.New(h.opt.Store, func() api.Env { return h.envs.all()[0] })
	h.Pool = tunnel.NewPool(tunnel.Options{
		Resolver:   h.opt.Settings.Resolver,
		Prompter:   o.Prompter,
		Memory:     h.opt.Store,
		Passwords:  h.passwords,
		Passphrase: h.passwords.Passphrase,
		Askpass:    self,
		Limits:     o.Connections,
		Network:    o.Network,
		Log:        h.opt.Log,
		Changed:    o.Changed,
		Envs:       h.envs.all,
		Spelling:   h.spelling,
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
func (h *Hosts) Reload() {
	h.quotas.Clear() // the site may have other commands
	h.Pool.Reload()
}

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
	labels := lists.Map(usedBy, api.HostLabel)
	commands := lists.Map(usedBy, func(name string) string { return "`tunctl logout " + name + "`" })
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
	site, _ := h.opt.Settings.Site(name)
	o.NoResume = !site.Resumes(h.opt.Settings.Config().Host(name))
	o.Records, o.Journals = relaysOf{name, h.relays}, h.relays.journals
	return node.New(host.Link(), o)
}

// names are the hosts of the config and the aliases of the ssh config.
func (h *Hosts) names() []string {
	aliases, err := sshconfig.Aliases(h.opt.Settings.SSHConfig())
	if err != nil {
		h.opt.Log.Debug("the ssh config's aliases cannot be read", "err", err)
	}
	return h.opt.Settings.Config().HostNames(aliases...)
}

// spelling is what is known about the name of a host that cannot be reached. A name that
// only a session of the config has may be mistyped there.
func (h *Hosts) spelling(name string) tunnel.Spelling {
	names := h.names()
	remembered := h.opt.Store.KnowsHost(name)
	s := tunnel.Spelling{Written: remembered || slices.Contains(names, name)}
	sections, _ := sshconfig.Aliases(h.opt.Settings.SSHConfig()) // names has logged the error
	for _, own := range h.opt.Settings.Config().Hosts {
		sections = append(sections, own.Name)
	}
	if !remembered && !slices.Contains(sections, name) {
		s.Meant = nearestHost(name, slices.DeleteFunc(names, func(n string) bool { return n == name }))
	}
	return s
}

// nearestHost is the host that the user probably meant, with the user that they typed; ""
// if no name is near.
func nearestHost(typed string, names []string) string {
	i := strings.LastIndex(typed, "@") + 1
	near := suggest.Nearest(typed[i:], names)
	if len(near) == 0 {
		return ""
	}
	return typed[:i] + near[0]
}

// hostHint is the hint for an unknown name: the nearest of names, or else all of them.
func hostHint(typed string, names []string) string {
	if near := nearestHost(typed, names); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(names) == 0 {
		return ""
	}
	return "available: " + strings.Join(names, ", ")
}

// All are the hosts that were asked for, without those that do not exist: a user mistyped the
// name, and knows it. So does who gave up a host that was never logged in to.
func (h *Hosts) All() []api.Host {
	configured := h.opt.Settings.Config().HostNames()
	return slices.DeleteFunc(h.Pool.Hosts(), func(x api.Host) bool {
		return IsUnknown(x) || x.State == api.HostDown && !slices.Contains(configured, x.Alias) && !h.opt.Store.KnowsHost(x.Alias)
	})
}

// IsUnknown reports whether no host has that name.
func IsUnknown(h api.Host) bool { return h.Code == api.CodeUnknownHost || h.Code == api.CodeUsage }

// Known returns an error for a name that was never logged in to and is in no config.
func (h *Hosts) Known(name string) error {
	if slices.ContainsFunc(h.All(), func(x api.Host) bool { return x.Alias == name }) {
		return nil
	}
	names := h.names()
	if slices.Contains(names, name) {
		return nil
	}
	return api.Errorf(api.CodeUnknownHost, "no host %q", name).WithHint("%s", hostHint(name, names))
}

// Allowed returns an error for a host outside the practice cluster, if the agent is
// confined to that.
func (h *Hosts) Allowed(ctx context.Context, host string) error {
	if h.opt.Practice == nil {
		return nil
	}
	address, err := h.address(ctx, host)
	if err != nil || h.opt.Practice(address) {
		return err
	}
	practice := slices.DeleteFunc(h.names(), func(name string) bool {
		address, err := h.address(ctx, name)
		return err != nil || !h.opt.Practice(address)
	})
	hint := hostHint(host, practice)
	if address != host {
		host += " (" + address + ")"
	}
	return api.Errorf(api.CodeUnknownHost, "this is the demo, which has the host practice only: %s is not part of it", host).WithHint("%s", hint)
}

// address is where ssh would connect for a host.
func (h *Hosts) address(ctx context.Context, host string) (string, error) {
	settings, err := h.Pool.Settings(ctx, host)
	return settings.Hostname, err
}

// Runner lets jobwatch run commands over a host's connection, on one account only unless that
// is "": the ID of a job means another job once the host's name stands for another cluster.
type Runner struct {
	Host    *tunnel.Host
	Account string
}

// Run implements remote.Runner.
func (r Runner) Run(ctx context.Context, command string, stdin []byte) (remote.Result, error) {
	if r.Account == "" {
		res, err := r.Host.Run(ctx, command, stdin)
		return remote.Result(res), err
	}
	res, err := r.Host.RunAs(ctx, r.Account, command, stdin)
	return remote.Result(res), err
}

// Connected refuses a host that is not connected, or not allowed. It never connects: that is
// up to the user.
func (h *Hosts) Connected(ctx context.Context, host string) error {
	err := h.Allowed(ctx, host)
	if err == nil && !IsUp(h.Pool.Host(host)) {
		return NotConnected(host, "")
	}
	return err
}

// Connect connects a host, for a client that answers its questions, and waits for that.
func (h *Hosts) Connect(ctx context.Context, host, client string) error {
	to := h.Pool.Host(host)
	if IsUp(to) {
		return nil
	}
	to.UpFor(client)
	return to.Await(ctx)
}

// NotConnected is the error of what needs a connection to a host; the effect continues
// its message.
func NotConnected(host, effect string) *api.Error {
	return api.Errorf(api.CodeUnreachable, "not connected to %s%s", host, effect).WithHint("`tunctl login %s` connects", host)
}

// JobOutOfReach is NotConnected for what the user wants done to a job.
func JobOutOfReach(host, id string) *api.Error {
	e := NotConnected(host, fmt.Sprintf(", where job %s is", id))
	e.Hint += ", then try again"
	return e
}

// RetryUntilUp calls do until it succeeds or is refused. A lost connection, or a
// scheduler that does not respond, only delays it; waiting gets the reason. do may be
// called more than once, as a submission with one tag can be.
func (h *Hosts) RetryUntilUp(ctx context.Context, host *tunnel.Host, do func() error, waiting func(error)) error {
	for {
		err := do()
		if err == nil || !isTransient(err) || ctx.Err() != nil {
			return err
		}
		h.opt.Log.Info("retrying when the host responds", "host", host.Status().Alias, "err", err)
		waiting(err)
		pause := h.opt.Retry
		if IsNoAnswer(err) {
			pause = h.opt.Jobs.QueryMin
		}
		if err := ctxtime.Sleep(ctx, pause); err != nil {
			return err
		}
		if err := Await(ctx, host, func() bool { return IsUp(host) }); err != nil {
			return err
		}
	}
}

// isTransient reports whether an error says nothing about the request itself: the
// connection was lost, all sessions were in use, or the scheduler did not respond.
func isTransient(err error) bool {
	return errors.Is(err, remote.ErrLost) || errors.Is(err, api.ErrDown) || errors.Is(err, api.ErrBusy) || IsNoAnswer(err)
}

// IsNoAnswer reports whether the scheduler did not respond.
func IsNoAnswer(err error) bool { return errors.Is(err, remote.ErrNoAnswer) }

// Await waits until done is true, which is asked at each change of the host.
func Await(ctx context.Context, host *tunnel.Host, done func() bool) error {
	for {
		changed := host.Changed()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// IsUp reports whether the host is connected.
func IsUp(host *tunnel.Host) bool { return host.Status().State == api.HostUp }

// maxEnvs is how many environments of clients are kept. Each ssh-agent that hangs delays
// a login, so they are few.
const maxEnvs = 3

// envs are the environments of clients, which logins use: the agent may have been started
// without the user's.
type envs struct {
	mu   sync.Mutex
	list []api.Env // the newest first
}

// UseEnv keeps a client's environment as the newest.
func (h *Hosts) UseEnv(env api.Env) { h.envs.use(env) }

// use keeps an environment as the newest. It replaces one with the same ssh-agent.
func (e *envs) use(env api.Env) {
	if len(env) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	earlier := slices.DeleteFunc(slices.Clone(e.list), func(x api.Env) bool { return x["SSH_AUTH_SOCK"] == env["SSH_AUTH_SOCK"] })
	e.list = append([]api.Env{env}, earlier[:min(len(earlier), maxEnvs-1)]...)
}

// all are the environments, the newest first, or one that is nil before the first client.
func (e *envs) all() []api.Env {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == 0 {
		return []api.Env{nil}
	}
	return slices.Clone(e.list)
}
