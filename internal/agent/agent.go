// Package agent reconciles what a person wants with what is: it owns every
// connection, job watch and forward, remembers which sessions were up, and serves
// the local API to the CLI and the tray.
//
// A session's way from "up" to a page can be read from top to bottom in up.go;
// facts.go alone decides what state that is. The agent never touches a terminal
// or a desktop: what needs a person goes out as an event.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/suggest"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel"
)

// Options say what an agent works with.
type Options struct {
	Paths   home.Paths
	Version string
	// SSHConfig is read in place of ~/.ssh/config, whatever the config file says.
	SSHConfig string
	Limits    Limits
	// Practice confines the agent to clusters of our own, for which alone the
	// quick limits are meant.
	Practice bool
	Log      *slog.Logger
}

// Agent is the background process's whole state.
type Agent struct {
	opt     Options
	limits  Limits
	log     *slog.Logger
	since   time.Time
	hub     *hub
	prompts *prompts
	store   *state.Store
	history *state.History
	pool    *tunnel.Pool
	work    sync.WaitGroup

	certificates certificates
	waiters      waiters

	reading sync.Mutex // one reload at a time
	mark    string     // of the config file when it was last read

	mu       sync.Mutex
	ctx      context.Context // of Serve; sessions live within it
	stop     context.CancelFunc
	envs     []api.Env // that clients sent, the newest first
	config   *configs.Config
	problem  *api.Problem
	sessions map[string]*session
	watchers map[watched]*jobwatch.Watcher

	sites        configs.Sites
	sitesVersion string // of their folder when they were read
}

// New reads what is remembered and the config. A config with errors does not
// keep an agent from starting: it says so to whoever asks.
func New(o Options) (*Agent, error) {
	st, err := state.Open(o.Paths.StateFile())
	if err != nil {
		return nil, err
	}
	a := &Agent{
		opt: o, limits: o.Limits, log: o.Log, since: time.Now(), store: st, hub: newHub(), history: state.NewHistory(o.Paths.History()),
		config:   &configs.Config{Path: o.Paths.Config},
		sessions: map[string]*session{}, watchers: map[watched]*jobwatch.Watcher{},
	}
	a.prompts = newPrompts(a.hub)
	self, err := os.Executable()
	if err != nil {
		o.Log.Warn("cannot find this program, so ssh cannot ask for passwords", "err", err)
	}
	a.mark = configs.Mark(o.Paths.Config)
	a.readConfig()
	a.pool = tunnel.NewPool(tunnel.Options{
		SSHConfig: a.sshConfig(),
		Prompter:  a.prompts,
		Memory:    st,
		Passwords: newPasswords(st, a.clientEnv),
		Askpass:   self,
		Limits:    o.Limits.Tunnel,
		Log:       o.Log,
		Changed:   a.hostChanged,
		Env:       a.clientEnv,
		Target:    a.sshTarget,
		Preset:    a.preset,
		Spelling:  a.spelling,

		EarlierEnvs: a.earlierEnvs,
	})
	return a, nil
}

// Serve runs the agent until ctx ends or a client asks it to stop. It wraps
// ErrRunning when another agent runs.
func (a *Agent) Serve(ctx context.Context) (err error) {
	door, err := openDoor(ctx, a.opt.Paths, a.since, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, door.release()) }()
	// The agent before may have written to it until just now.
	if err := a.store.Reload(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.mu.Lock()
	a.ctx, a.stop = ctx, stop
	a.mu.Unlock()
	a.log.Info("agent started", "pid", os.Getpid(), "version", a.opt.Version, "socket", door.Addr().String())
	a.work.Go(func() { door.serve(ctx, a.limits.Socket) })
	a.work.Go(func() { a.report("pool", a.pool.Serve(ctx)) })
	a.work.Go(func() { a.report("config", configs.Watch(ctx, a.opt.Paths.Config, a.reload)) })
	a.restore()
	err = a.serveAPI(ctx, door)
	stop()
	a.work.Wait()
	a.hub.close()
	a.log.Info("agent stopped")
	return err
}

func (a *Agent) report(part string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.log.Error("a part of the agent stopped", "part", part, "err", err)
	}
}

// restore brings up again what was up when the last agent ended. It submits nothing.
func (a *Agent) restore() {
	for _, name := range a.store.Wanted() {
		s, err := a.session(name)
		if err != nil {
			a.log.Warn("a saved session is no longer in the config", "session", name)
			continue
		}
		s.start(byItself, "")
	}
}

// Status is everything the agent knows.
func (a *Agent) Status() api.Status {
	a.mu.Lock()
	cfg, problem := a.config, a.problem
	a.mu.Unlock()
	st := api.Status{
		Version:  api.Version,
		Agent:    &api.Agent{PID: os.Getpid(), Version: a.opt.Version, Since: a.since, Log: a.opt.Paths.Log()},
		Config:   problem,
		Hosts:    append([]api.Host{}, listed(a.pool.Hosts())...),
		Sessions: make([]api.Session, 0, len(cfg.Sessions)),
	}
	for _, c := range cfg.Sessions { // in the order of the file
		st.Sessions = append(st.Sessions, a.downSession(c))
	}
	for _, s := range a.live() {
		now := s.status()
		if i := slices.IndexFunc(st.Sessions, func(x api.Session) bool { return x.Name == s.name }); i >= 0 {
			st.Sessions[i] = now
		} else {
			st.Sessions = append(st.Sessions, s.outlived(now))
		}
	}
	return st
}

// session returns the live session of that name, made from the config if need be.
func (a *Agent) session(name string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg, configured := a.config.Session(name)
	s, live := a.sessions[name]
	switch {
	case live:
		return s, nil
	case configured:
		s = newSession(a, cfg)
		a.sessions[name] = s
		return s, nil
	}
	if s, ok := a.rememberedLocked(name); ok {
		return s, nil
	}
	switch {
	case a.problem != nil:
		return nil, &api.Error{Code: api.CodeConfig, Message: a.problem.Message, Hint: "fix the file; `tunctl config check` checks it"}
	case len(a.config.Sessions) == 0 && len(a.sessions) == 0:
		return nil, &api.Error{
			Code: api.CodeConfig, Message: fmt.Sprintf("no sessions in %s", a.config.Path),
			Hint: "`tunctl init` creates one; `tunctl config edit` starts from an example; `tunctl demo` needs none",
		}
	}
	return nil, a.unknownSessionLocked(name)
}

// unknownSessionLocked lists the sessions there are, in the config or not, the nearest
// first.
func (a *Agent) unknownSessionLocked(name string) *api.Error {
	names := make([]string, 0, len(a.config.Sessions))
	for _, s := range a.config.Sessions {
		names = append(names, s.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(a.sessions)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	e := &api.Error{
		Code: api.CodeUnknownSession, Message: fmt.Sprintf("no session %q in %s", name, a.config.Path), Hint: "`tunctl init` adds one",
	}
	if len(names) > 0 {
		e.Hint = "available: " + strings.Join(suggest.NearestFirst(name, names), ", ")
	}
	return e
}

// down takes a session, or all, down.
func (a *Agent) down(ctx context.Context, req api.DownRequest) ([]api.Session, error) {
	targets, err := a.downTargets(req)
	if err != nil {
		return nil, err
	}
	done := []api.Session{}
	for _, s := range targets {
		after, err := s.stop(ctx, req.Cancel)
		if err != nil {
			return done, err
		}
		after.Forgotten = a.letGo(s)
		done = append(done, after)
	}
	return done, nil
}

func (a *Agent) downTargets(req api.DownRequest) ([]*session, error) {
	if req.All {
		return a.live(), nil
	}
	s, err := a.session(req.Session)
	return []*session{s}, err
}

// pageURL is the whole address of a session's page.
func (a *Agent) pageURL(name string) (string, error) {
	s, err := a.session(name)
	if err != nil {
		return "", err
	}
	return s.pageURL()
}

// configured is the session as the config has it now.
func (a *Agent) configured(name string) (configs.Session, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config.Session(name)
}

// customApps are the person's own apps.
func (a *Agent) customApps() []detect.App {
	a.mu.Lock()
	defer a.mu.Unlock()
	var apps []detect.App
	for _, c := range a.config.Apps {
		apps = append(apps, detect.App{Name: c.Name, Patterns: c.Patterns})
	}
	return apps
}

// watched is what a job watcher is for. A host's name is not enough: the config can
// give it another scheduler, or make it stand for another account.
type watched struct {
	host, account string
	scheduler     string
	limits        jobwatch.Limits
}

// watcher returns the job watcher of a host as it is now.
func (a *Agent) watcher(host string) *jobwatch.Watcher {
	w, _ := a.watcherOn(host)
	return w
}

// watcherOn returns the job watcher of a host as it is now, shared by its sessions, and
// the account that it asks; "" where the host was never connected. One that is no longer
// what the config says goes on for those who have it, and asks nothing once they have
// left.
func (a *Agent) watcherOn(host string) (w *jobwatch.Watcher, account string) {
	options, h := a.watchOptions(host), a.pool.Host(host)
	key := watched{host: host, account: h.Account(), scheduler: options.Scheduler, limits: options.Limits}
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.watchers[key]
	if !ok {
		var run jobwatch.Runner = accountRunner{h, key.account}
		if key.account == "" { // never connected yet
			run = runner{h}
		}
		w = jobwatch.NewWatcher(run, options)
		a.watchers[key] = w
		ctx := a.ctx
		a.work.Go(func() { a.report("job watch", w.Serve(ctx)) })
	}
	return w, key.account
}

// hostChanged tells everyone, and the sessions on the host, of its new state.
func (a *Agent) hostChanged(h api.Host) {
	a.hub.publish(api.Event{Type: api.EventHost, Host: &h})
	if isNoHost(h) { // whoever asked was just told; the others need not keep it
		a.hub.publish(api.Event{Type: api.EventStatus})
	}
	if n := a.certificates.notice(h, time.Now()); n != nil {
		a.hub.publish(api.Event{Type: api.EventNotice, Notice: n})
	}
	if h.State == api.HostDown && a.ctx.Err() != nil {
		return // the agent ends, and nobody logged out
	}
	for _, s := range a.live() {
		if s.host() == h.Alias {
			s.change(func(f *facts) { f.host = h })
		}
	}
}

// live are the sessions that were up since the agent started, by name. A
// session's lock is never taken under the agent's.
func (a *Agent) live() []*session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.sessions), func(x, y *session) int { return strings.Compare(x.name, y.name) })
}

// maxEnvs is how many environments of clients are remembered. Each agent that hangs
// holds a login up for a while, so they are few.
const maxEnvs = 3

// useEnv remembers a client's environment as the newest. An earlier one with the same
// ssh-agent has nothing to add to it.
func (a *Agent) useEnv(env api.Env) {
	if len(env) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	earlier := slices.DeleteFunc(slices.Clone(a.envs), func(e api.Env) bool { return e["SSH_AUTH_SOCK"] == env["SSH_AUTH_SOCK"] })
	a.envs = append([]api.Env{env}, earlier[:min(len(earlier), maxEnvs-1)]...)
}

// clientEnv is the newest client's environment.
func (a *Agent) clientEnv() api.Env {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.envs) == 0 {
		return nil
	}
	return a.envs[0]
}

// earlierEnvs are the environments of clients before the newest.
func (a *Agent) earlierEnvs() []api.Env {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.envs[min(len(a.envs), 1):])
}

// sshConfig is the file read in place of ~/.ssh/config, if any.
func (a *Agent) sshConfig() string {
	if a.opt.SSHConfig != "" {
		return a.opt.SSHConfig
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config.SSHConfig
}

// sshTarget is what a host of the config is to ssh.
func (a *Agent) sshTarget(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config.Host(name).SSH
}
