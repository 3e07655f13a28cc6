// Package agent brings the wanted state and the actual state together: it owns every
// connection, job watch and forward, remembers which sessions were up, and serves the
// local API to the CLI and the tray.
//
// Its parts: registry.go, where alone a name becomes a session; package hosts, for all that is known
// and asked of hosts; server.go, which makes calls of requests and streams of events. This file
// starts and stops them.
//
// up.go has the steps from "up" to a followed job, jobrun.go those from a log line to an
// open forward, both from top to bottom. Only package facts decides the state of a session, and
// only session.go changes what is remembered of one. The agent never touches a terminal or
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
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/socket"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/home"
	"tunctl/internal/localapi"
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

// Agent is the background process: it starts, connects and stops its parts.
type Agent struct {
	*shared

	opt          Options
	since        time.Time
	server       *server
	certificates certificates
}

// New reads the state file and the config. An agent starts even if the config has
// errors, and reports them to its clients.
func New(o Options) (*Agent, error) {
	st, err := state.Open(o.Paths.StateFile())
	if err != nil {
		return nil, err
	}
	a := &Agent{opt: o, since: time.Now(), shared: &shared{
		limits: o.Limits, log: o.Log, store: st, history: state.NewHistory(o.Paths.History()),
		hub: events.NewHub(), usage: usage.NewHub(), settings: settings.Open(o.Paths, o.SSHConfig, o.Log), unsettled: make(chan struct{}, 1),
	}}
	a.sessions = newRegistry(a.shared)
	a.server = &server{
		shared: a.shared, paths: o.Paths, prompts: events.NewPrompts(a.hub),
		about: api.Agent{PID: os.Getpid(), Version: o.Version, Since: a.since, Log: o.Paths.Log()},
	}
	a.hosts = hosts.New(hosts.Options{
		Settings: a.settings, Store: st, Relays: o.Paths.Relays(), Prompter: a.server.prompts, Log: o.Log, Changed: a.hostChanged, Practice: o.Practice, Network: o.network,
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
	if why := a.store.Unread(); why != nil {
		a.log.Error("jobs may be missing: they are looked for on each host once it is connected", "err", errors.Join(why, a.store.Save()))
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	a.ctx, a.server.stop = ctx, stop
	a.log.Info("agent started", "pid", os.Getpid(), "version", a.opt.Version, "socket", sock.Addr().String())
	// Before anything connects: a browser's tab gets the waiting page, and no other program
	// takes the port meanwhile.
	for _, s := range a.sessions.saved() {
		if err := s.holdPort(); err != nil { // the session's attempt tries again, and reports it
			a.log.Warn("cannot listen yet", "session", s.name, "err", err)
		}
	}
	if sock.Crashed {
		now := time.Now()
		n, err := a.store.AddCrash(now, a.limits.CrashWindow)
		if err != nil {
			a.log.Warn("cannot save that the last agent crashed", "err", err)
		}
		a.log.Warn("the last agent crashed", "recently", n)
		a.sessions.pause.begin(n, a.limits, now)
	}
	a.work.Go(func() { sock.Serve(serving, a.limits.Socket) })
	var connections sync.WaitGroup
	a.hosts.Start(connected, &connections)
	a.work.Go(func() { a.report("config", configs.Watch(serving, a.opt.Paths.Config, a.reload)) })
	a.sessions.restoreJobs()
	a.sessions.restore()
	a.work.Go(func() { a.report("submissions", a.sessions.settle(ctx)) })
	err := localapi.Serve(serving, sock, a.server.withConfig(a.server.routes()), a.limits.Drain, a.log)
	// What runs inside jobs is told to end while there is a connection: nobody else would end it.
	wait := a.limits.Drain
	if !slices.ContainsFunc(a.pool.Hosts(), func(h api.Host) bool { return h.State == api.HostUp }) {
		wait = 0 // nothing can answer
	}
	late := time.AfterFunc(wait, disconnect)
	a.sessions.closeForwards()
	end()
	a.work.Wait()
	late.Stop()
	disconnect()
	connections.Wait()
	a.sessions.closeForwards() // one may have been opened meanwhile
	a.kept.Close()
	a.hub.Close()
	if err == nil {
		err = a.store.ClearCrashes()
	}
	a.log.Info("agent stopped")
	return err
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
	for _, s := range a.sessions.live() {
		if s.host() == h.Alias {
			s.Change(func(f *facts.Facts) { f.Host = h })
		}
	}
	if h.State == api.HostUp {
		a.sessions.observeAll()
		a.hosts.EndLeftRelays(h)
		signal(a.unsettled)
		if a.store.Incomplete(h.Alias) {
			a.work.Go(func() {
				if err := a.sessions.recoverJobs(a.ctx, h.Alias); err != nil { // the next connection tries again
					a.log.Warn("cannot look for jobs", "host", h.Alias, "err", err)
				}
			})
		}
	}
}

// pause is the state after crashes in a row: nothing connects automatically until a person acts,
// since each start may cost a login and end in the next crash.
type pause struct {
	mu      sync.Mutex
	problem *api.Problem // nil: none
}

// begin pauses the agent if it has crashed too often lately.
func (p *pause) begin(crashes int, limits Limits, now time.Time) {
	if crashes < limits.Crashes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = &api.Problem{
		Message: fmt.Sprintf("the agent crashed %d times within %s, so it does not connect automatically", crashes, api.DurationText(limits.CrashWindow)),
		Since:   now,
	}
}

// why is the reason of the pause; nil if there is none.
func (p *pause) why() *api.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}

// end ends the pause, and reports whether there was one.
func (p *pause) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	paused := p.problem != nil
	p.problem = nil
	return paused
}

// errorFor is why a session is not restored; nil if it is.
func (p *pause) errorFor(session string) *api.Error {
	problem := p.why()
	if problem == nil {
		return nil
	}
	return api.Errorf(api.CodeFailed, "%s", problem.Message).
		WithHint("`tunctl up %s` connects all sessions again; `tunctl agent log` shows what happened before", session)
}
