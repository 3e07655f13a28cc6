// Package agent brings the wanted state and the actual state together: it owns every
// connection, job watch and forward, remembers which sessions were up, and serves the
// local API to the CLI and the tray.
//
// up.go has the steps from "up" to a followed job, jobrun.go those from a log line to an
// open forward, both from top to bottom. Only package facts decides the state of a session, and
// only record.go changes what is remembered of one. The agent never touches a terminal or
// a desktop: what needs a person is published as an event.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/usage"
	"tunctl/jobwatch"
	"tunctl/jobwatch/detect"
	"tunctl/tunnel"
)

// Options are what an agent needs.
type Options struct {
	Paths   home.Paths
	Version string
	// SSHConfig replaces ~/.ssh/config, whatever the config file says.
	SSHConfig string
	Limits    Limits
	// Practice, if set, confines the agent to the addresses of a practice cluster: quick
	// limits are too fast for other login nodes.
	Practice func(address string) bool
	Log      *slog.Logger
}

// Agent is the whole state of the background process.
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
	usage   *usage.Hub
	work    sync.WaitGroup

	certificates certificates
	waiters      waiters
	approvals    approvals

	reloadMu   sync.Mutex // one reload at a time
	configMark string     // of the config file when it was last read

	mu          sync.Mutex
	ctx         context.Context // of Serve; sessions end with it
	stop        context.CancelFunc
	envs        []api.Env // of clients, the newest first
	config      *configs.Config
	problem     *api.Problem
	paused      *api.Problem // after crashes, until a person acts
	sessions    map[string]*session
	jobWatchers map[watcherKey]*jobwatch.Watcher
	unsettled   chan struct{} // signals settle that there may be something to do

	sites        configs.Sites
	sitesVersion string // of their folder when they were read
	sitesProblem string // the last one that was logged

	quotas map[string]knownQuota // by host
}

// New reads the state file and the config. An agent starts even if the config has
// errors, and reports them to its clients.
func New(o Options) (*Agent, error) {
	st, err := state.Open(o.Paths.StateFile())
	if err != nil {
		return nil, err
	}
	a := &Agent{
		opt: o, limits: o.Limits, log: o.Log, since: time.Now(), store: st, hub: newHub(), usage: usage.NewHub(), history: state.NewHistory(o.Paths.History()),
		config:   &configs.Config{Path: o.Paths.Config},
		sessions: map[string]*session{}, jobWatchers: map[watcherKey]*jobwatch.Watcher{}, unsettled: make(chan struct{}, 1),
	}
	a.prompts = newPrompts(a.hub)
	a.configMark = configs.Digest(o.Paths.Config)
	a.readConfig()
	a.pool = tunnel.NewPool(a.poolOptions())
	return a, nil
}

// poolOptions are the options of the agent's pool.
func (a *Agent) poolOptions() tunnel.Options {
	self, err := os.Executable()
	if err != nil {
		a.log.Warn("cannot find this program, so ssh cannot ask for passwords", "err", err)
	}
	return tunnel.Options{
		SSHConfig: a.sshConfig(),
		Prompter:  a.prompts,
		Memory:    a.store,
		Passwords: &passwords{store: a.store, env: a.clientEnv},
		Askpass:   self,
		Limits:    a.limits.Tunnel,
		Log:       a.log,
		Changed:   a.hostChanged,
		Env:       a.clientEnv,
		Target:    func(name string) string { return a.cfg().Host(name).SSH },
		Preset:    a.preset,
		Spelling:  a.spelling,

		EarlierEnvs: a.earlierEnvs,
	}
}

// Serve runs the agent until ctx ends or a client stops it. Its error wraps ErrRunning
// if another agent runs.
func (a *Agent) Serve(ctx context.Context) error {
	sock, err := openSocket(ctx, a.opt.Paths, a.since, a.log)
	if err != nil {
		return err
	}
	err = a.serve(ctx, sock)
	// Not deferred: the next agent takes what a panic leaves for a crash.
	return errors.Join(err, sock.release())
}

// serve runs the agent that holds the lock.
func (a *Agent) serve(ctx context.Context, sock *socket) error {
	// The previous agent may have written the file until just now.
	if err := a.store.Reload(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.mu.Lock()
	a.ctx, a.stop = ctx, stop
	a.mu.Unlock()
	a.log.Info("agent started", "pid", os.Getpid(), "version", a.opt.Version, "socket", sock.Addr().String())
	// Before anything connects: a browser's tab gets the waiting page, and no other program
	// takes the port meanwhile.
	for _, s := range a.saved() {
		if err := s.holdPort(); err != nil { // the session's attempt tries again, and reports it
			a.log.Warn("cannot listen yet", "session", s.name, "err", err)
		}
	}
	if sock.crashed {
		a.countCrash()
	}
	a.work.Go(func() { sock.serve(ctx, a.limits.Socket) })
	a.work.Go(func() { a.report("pool", a.pool.Serve(ctx)) })
	a.work.Go(func() { a.report("config", configs.Watch(ctx, a.opt.Paths.Config, a.reload)) })
	a.restoreJobs()
	a.restore()
	a.work.Go(func() { a.report("submissions", a.settle(ctx)) })
	err := a.serveAPI(ctx, sock)
	stop()
	a.work.Wait()
	for _, s := range a.live() { // the next agent needs their ports
		s.mu.Lock()
		open := s.pages.forwards
		s.mu.Unlock()
		open.Close()
	}
	a.hub.close()
	if err == nil {
		err = a.store.ClearCrashes()
	}
	a.log.Info("agent stopped")
	return err
}

func (a *Agent) report(part string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.log.Error("a part of the agent stopped", "part", part, "err", err)
	}
}

// restore brings up what was up when the last agent stopped, unless the agent is paused.
// It submits nothing.
func (a *Agent) restore() {
	for _, s := range a.saved() {
		why, rec := a.pausedError(s.name), a.store.Session(s.name)
		switch {
		case s.inProgress(): // a person was first
		case rec.Failure != nil && !rec.Submissions.AnyLive(): // a new attempt could only say that there is no job
			s.change(func(f *facts.Facts) { f.Failure = rec.Failure })
		case why != nil:
			known := remembered(a.store, s.name)
			s.change(func(f *facts.Facts) { f.Failure, f.Job, f.Next = why, known.Job, known.Next })
		default:
			s.start(byAgent, false, "", "", nil)
		}
	}
}

// restoreJobs lists the sessions with jobs that may wait or run, also those that the config no
// longer has, and records that submit commands of the last agent were lost.
func (a *Agent) restoreJobs() {
	for _, name := range a.store.Live() {
		if err := a.store.Update(name, func(r *state.Session) { r.Submissions = r.Submissions.Lost(time.Now().Round(0)) }); err != nil {
			a.log.Error("cannot save the session", "session", name, "err", err)
		}
		_, _ = a.session(name) // which lists it
	}
}

// saved are the sessions that were up when the last agent stopped.
func (a *Agent) saved() []*session {
	var all []*session
	for _, name := range a.store.Wanted() {
		s, err := a.session(name)
		if err != nil || a.isRemoved(s) {
			a.log.Warn("a saved session is no longer in the config", "session", name)
			continue
		}
		all = append(all, s)
	}
	return all
}

// Status is everything the agent knows.
func (a *Agent) Status() api.Status {
	a.mu.Lock()
	cfg, problem, paused := a.config, a.problem, a.paused
	a.mu.Unlock()
	st := api.Status{
		Version:  api.Version,
		Agent:    &api.Agent{PID: os.Getpid(), Version: a.opt.Version, Since: a.since, Log: a.opt.Paths.Log(), Paused: paused},
		Config:   problem,
		Hosts:    append([]api.Host{}, withoutUnknown(a.pool.Hosts())...),
		Sessions: knownSessions(cfg, a.store, time.Now()),
	}
	for _, s := range a.live() {
		now := s.status()
		if a.isRemoved(s) {
			now = withUnconfiguredHint(now)
		}
		if i := slices.IndexFunc(st.Sessions, func(x api.Session) bool { return x.Name == s.name }); i >= 0 {
			st.Sessions[i] = now
		} else {
			st.Sessions = append(st.Sessions, now)
		}
	}
	return st
}

// cfg is the config as it is now. It is never changed, only replaced.
func (a *Agent) cfg() *configs.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// detector finds servers in a log, those of the config's apps too.
func (a *Agent) detector(app string) *detect.Detector {
	var apps []detect.App
	for _, c := range a.cfg().Apps {
		apps = append(apps, detect.App{Name: c.Name, Patterns: c.Patterns})
	}
	return detect.New(app, apps...)
}

// hostChanged publishes the new state of a host, and updates the sessions there.
func (a *Agent) hostChanged(h api.Host) {
	a.hub.publish(api.Event{Type: api.EventHost, Host: &h})
	if isUnknownHost(h) { // the event says so to who asked; the new status removes it elsewhere
		a.hub.publish(api.Event{Type: api.EventStatus})
	}
	if n := a.certificates.notice(h, time.Now()); n != nil {
		a.hub.publish(api.Event{Type: api.EventNotice, Notice: n})
	}
	if h.State == api.HostDown && a.ctx.Err() != nil {
		return // the agent stops: nobody logged out
	}
	for _, s := range a.live() {
		if s.host() == h.Alias {
			s.change(func(f *facts.Facts) { f.Host = h })
		}
	}
	if h.State == api.HostUp {
		a.observeAll()
		signal(a.unsettled)
	}
}

// maxEnvs is how many environments of clients are kept. Each ssh-agent that hangs delays
// a login, so they are few.
const maxEnvs = 3

// useEnv keeps a client's environment as the newest. It replaces one with the same
// ssh-agent.
func (a *Agent) useEnv(env api.Env) {
	if len(env) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	earlier := slices.DeleteFunc(slices.Clone(a.envs), func(e api.Env) bool { return e["SSH_AUTH_SOCK"] == env["SSH_AUTH_SOCK"] })
	a.envs = append([]api.Env{env}, earlier[:min(len(earlier), maxEnvs-1)]...)
}

// clientEnv is the environment of the newest client.
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

// sshConfig is the file that replaces ~/.ssh/config, if any.
func (a *Agent) sshConfig() string {
	return cmp.Or(a.opt.SSHConfig, a.cfg().SSHConfig)
}

// countCrash records that the last agent crashed. After several crashes in a row this
// agent starts paused: it restores no connection until a person acts, since each start
// may cost a login and end in the next crash.
func (a *Agent) countCrash() {
	now := time.Now()
	n, err := a.store.AddCrash(now, a.limits.CrashWindow)
	if err != nil {
		a.log.Warn("cannot save that the last agent crashed", "err", err)
	}
	a.log.Warn("the last agent crashed", "recently", n)
	if n < a.limits.Crashes {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = &api.Problem{
		Message: fmt.Sprintf("the agent crashed %d times within %s, so it does not connect automatically", n, api.DurationText(a.limits.CrashWindow)),
		Since:   now,
	}
}

// pausedError is why a session is not restored; nil if it is.
func (a *Agent) pausedError(session string) *api.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paused == nil {
		return nil
	}
	return api.Errorf(api.CodeFailed, "%s", a.paused.Message).Because(facts.ErrPaused).
		WithHint("`tunctl up %s` connects all sessions again; `tunctl agent log` shows what happened before", session)
}

// resume ends a pause: a person has asked for something. It restores the other sessions.
func (a *Agent) resume() {
	a.mu.Lock()
	paused := a.paused
	a.paused = nil
	a.mu.Unlock()
	if paused == nil {
		return
	}
	a.log.Info("a person ended the pause after crashes")
	a.restore()
	a.hub.publish(api.Event{Type: api.EventStatus})
}
