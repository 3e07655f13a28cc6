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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"tunctl/configs"
	"tunctl/internal/agent/events"
	"tunctl/internal/agent/facts"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/localapi"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/socket"
	"tunctl/internal/agent/state"
	"tunctl/internal/agent/submit"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/usage"
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

	network *tunnel.Network // of tests; nil: the computer's
}

// Agent is the whole state of the background process.
type Agent struct {
	opt      Options
	limits   Limits
	log      *slog.Logger
	since    time.Time
	hub      *events.Hub
	prompts  *events.Prompts
	store    *state.Store
	history  *state.History
	settings *settings.Settings
	hosts    *hosts.Hosts
	pool     *tunnel.Pool // of hosts
	usage    *usage.Hub
	work     sync.WaitGroup

	certificates certificates
	waiters      submit.Waiters

	reloading sync.Mutex // one reload at a time

	mu        sync.Mutex
	ctx       context.Context // of Serve; sessions end with it
	stop      context.CancelFunc
	paused    *api.Problem // after crashes, until a person acts
	sessions  map[string]*session
	unsettled chan struct{} // signals settle that there may be something to do
}

// New reads the state file and the config. An agent starts even if the config has
// errors, and reports them to its clients.
func New(o Options) (*Agent, error) {
	st, err := state.Open(o.Paths.StateFile())
	if err != nil {
		return nil, err
	}
	a := &Agent{
		opt: o, limits: o.Limits, log: o.Log, since: time.Now(), store: st, hub: events.NewHub(), usage: usage.NewHub(), history: state.NewHistory(o.Paths.History()),
		settings: settings.Open(o.Paths, o.SSHConfig, o.Log),
		sessions: map[string]*session{}, unsettled: make(chan struct{}, 1),
	}
	a.prompts = events.NewPrompts(a.hub)
	a.hosts = hosts.New(hosts.Options{
		Settings: a.settings, Store: st, Prompter: a.prompts, Log: o.Log, Changed: a.hostChanged, Practice: o.Practice, Network: o.network,
		Connections: o.Limits.Tunnel, Jobs: o.Limits.Jobs, Retry: o.Limits.Probe.Every, Quota: o.Limits.Quota,
	})
	a.pool = a.hosts.Pool
	return a, nil
}

// Serve runs the agent until ctx ends or a client stops it. Its error wraps socket.ErrRunning
// if another agent runs.
func (a *Agent) Serve(ctx context.Context) error {
	sock, err := socket.Open(ctx, a.opt.Paths, a.since, a.log)
	if err != nil {
		return err
	}
	err = a.serve(ctx, sock)
	// Not deferred: the next agent takes what a panic leaves for a crash.
	return errors.Join(err, sock.Release())
}

// serve runs the agent that holds the lock.
func (a *Agent) serve(ctx context.Context, sock *socket.Socket) error {
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
	if sock.Crashed {
		a.countCrash()
	}
	a.work.Go(func() { sock.Serve(ctx, a.limits.Socket) })
	a.hosts.Start(ctx, &a.work)
	a.work.Go(func() { a.report("config", configs.Watch(ctx, a.opt.Paths.Config, a.reload)) })
	a.restoreJobs()
	a.restore()
	a.work.Go(func() { a.report("submissions", a.settle(ctx)) })
	err := localapi.Serve(ctx, sock, a.withConfig(a.routes()), a.limits.Drain, a.log)
	stop()
	a.work.Wait()
	for _, s := range a.live() { // the next agent needs their ports
		s.mu.Lock()
		open := s.pages.forwards
		s.mu.Unlock()
		open.Close()
	}
	a.hub.Close()
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
			s.start(byAgent, false, "", "", submit.Plan{})
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
	paused := a.paused
	a.mu.Unlock()
	st := api.Status{
		Version:  api.Version,
		Agent:    &api.Agent{PID: os.Getpid(), Version: a.opt.Version, Since: a.since, Log: a.opt.Paths.Log(), Paused: paused},
		Config:   a.settings.Problem(),
		Hosts:    append([]api.Host{}, a.hosts.All()...),
		Sessions: knownSessions(a.settings.Config(), a.store, time.Now()),
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

// hostChanged publishes the new state of a host, and updates the sessions there.
func (a *Agent) hostChanged(h api.Host) {
	a.hub.Publish(api.Event{Type: api.EventHost, Host: &h})
	if hosts.IsUnknown(h) { // the event says so to who asked; the new status removes it elsewhere
		a.hub.Publish(api.Event{Type: api.EventStatus})
	}
	if n := a.certificates.notice(h, time.Now()); n != nil {
		a.hub.Publish(api.Event{Type: api.EventNotice, Notice: n})
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

// errPaused is wrapped by the failure of a session that is not restored after crashes.
var errPaused = errors.New("the agent is paused")

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
	a.hub.Publish(api.Event{Type: api.EventStatus})
}

// reload reads the config file if it has changed, and publishes the new status. What is
// running stays as it is: a session uses its new settings at its next up, a host at its
// next dial. If the file has errors, the last valid one stays in use and one notice says
// so.
func (a *Agent) reload() {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	changed, err := a.settings.Reload()
	if !changed {
		return
	}
	if err != nil {
		a.hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Text: "the config has errors; the last valid one stays in use: " + err.Error()}})
	}
	a.hosts.Reload()
	for _, s := range a.live() {
		if s.origin == fromConfig || s.origin == orphaned {
			a.dropIfDown(s)
		}
	}
	a.hub.Publish(api.Event{Type: api.EventStatus})
}
