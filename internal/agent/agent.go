// Package agent brings the wanted state and the actual state together: it owns every
// connection, job watch and forward, remembers which sessions were up, and serves the
// local API to the CLI and the tray.
//
// Its parts: package session, where alone a name becomes a session; package hosts, for all that is known
// and asked of hosts; server.go, which makes calls of requests and streams of events. This file
// starts and stops them. The agent never touches a terminal or a desktop: what needs the user is
// published as an event.
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

	"tunctl/internal/agent/events"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/session"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/socket"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/ctxtime"
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
	Limits    session.Limits
	// Practice, if set, confines the agent to the addresses of a practice cluster: quick
	// limits are too fast for other login nodes.
	Practice func(address string) bool
	Log      *slog.Logger

	network *tunnel.Network // of tests; nil: the computer's
}

// Agent is the background process: it starts, connects and stops its parts.
type Agent struct {
	*session.Parts

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
	a := &Agent{opt: o, since: time.Now(), certificates: certificates{}, Parts: &session.Parts{
		Limits: o.Limits, Log: o.Log, Store: st, History: state.NewHistory(o.Paths.History()),
		Hub: events.NewHub(), Usage: usage.NewHub(), Settings: settings.Open(o.Paths, o.SSHConfig, o.Log), Dashboard: o.Paths.Dashboard,
	}}
	session.NewRegistry(a.Parts)
	a.server = &server{
		Parts: a.Parts, paths: o.Paths, prompts: events.NewPrompts(a.Hub),
		about: api.Agent{PID: os.Getpid(), Version: o.Version, Since: a.since, Log: o.Paths.Log()},
	}
	a.Hosts = hosts.New(hosts.Options{
		Settings: a.Settings, Store: st, Relays: o.Paths.Relays(), Prompter: a.server.prompts, Log: o.Log, Changed: a.hostChanged, Practice: o.Practice, Network: o.network,
		Connections: o.Limits.Tunnel, Jobs: o.Limits.Jobs, Retry: o.Limits.Run.Probe.Every, Quota: o.Limits.Quota,
	})
	return a, nil
}

// Serve runs the agent until ctx ends or a client stops it. Its error wraps socket.ErrRunning
// if another agent runs.
func (a *Agent) Serve(ctx context.Context) error {
	sock, err := socket.Open(ctx, a.opt.Paths, a.since, a.Log)
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
	if err := a.Store.Reload(); err != nil {
		return err
	}
	if why := a.Store.Unread(); why != nil {
		a.Log.Error("jobs may be missing: they are looked for on each host once it is connected", "err", errors.Join(why, a.Store.Save()))
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	a.Ctx, a.server.stop = ctx, stop
	a.Log.Info("agent started", "pid", os.Getpid(), "version", a.opt.Version, "socket", sock.Addr().String())
	// Before anything connects: a browser's tab gets the waiting page, and no other program
	// takes the port meanwhile.
	for _, s := range a.Sessions.Saved() {
		if err := s.HoldPort(); err != nil { // the session's attempt tries again, and reports it
			a.Log.Warn("cannot listen yet", "session", s.Name, "err", err)
		}
	}
	if sock.Crashed {
		n, err := a.Store.AddCrash(time.Now(), a.Limits.CrashWindow)
		if err != nil {
			a.Log.Warn("cannot save that the last agent crashed", "err", err)
		}
		a.Log.Warn("the last agent crashed", "recently", n)
		a.Sessions.PauseAfter(n)
	}
	a.Work.Go(func() { sock.Serve(serving, a.Limits.Look) })
	var connections sync.WaitGroup
	a.Hosts.Start(connected, &connections)
	a.Work.Go(func() {
		for a.Reload(); ctxtime.Sleep(serving, a.Limits.Look) == nil; {
			a.Reload()
		}
	})
	a.Sessions.RestoreJobs()
	a.Sessions.Restore()
	a.Work.Go(func() { a.Sessions.Settle(ctx) })
	err := localapi.Serve(serving, sock, a.server.withConfig(a.server.routes()), a.Limits.Drain, a.Log)
	// What runs inside jobs is told to end while there is a connection: nobody else would end it.
	wait := a.Limits.Drain
	if !slices.ContainsFunc(a.Hosts.Pool.Hosts(), func(h api.Host) bool { return h.State == api.HostUp }) {
		wait = 0 // nothing can answer
	}
	late := time.AfterFunc(wait, disconnect)
	a.Sessions.CloseForwards()
	end()
	a.Work.Wait()
	late.Stop()
	disconnect()
	connections.Wait()
	a.Sessions.CloseForwards() // one may have been opened meanwhile
	a.Kept.Close()
	a.Hub.Close()
	if err == nil {
		err = a.Store.ClearCrashes()
	}
	a.Log.Info("agent stopped")
	return err
}

// hostChanged publishes the new state of a host, and updates the sessions there.
func (a *Agent) hostChanged(h api.Host) {
	a.Hub.Publish(api.Event{Type: api.EventHost, Host: &h})
	if hosts.IsUnknown(h) { // the event says so to who asked; the new status removes it elsewhere
		a.Hub.Publish(api.Event{Type: api.EventStatus})
	}
	if n := a.certificates.notice(h, time.Now()); n != nil {
		a.Hub.Publish(api.Event{Type: api.EventNotice, Notice: n})
	}
	if h.State == api.HostDown && a.Ctx.Err() != nil {
		return // the agent stops: nobody logged out
	}
	a.Sessions.HostChanged(h)
	if h.State == api.HostUp {
		a.Hosts.EndLeftRelays(h)
	}
}

// certificates are the ends of the login certificates that were reported, by their hosts. Hosts change one
// at a time, so it needs no lock.
type certificates map[string]time.Time

// notice is the notice for a host that has changed: once for each certificate that expires soon; nil if there is
// nothing to report.
func (c certificates) notice(h api.Host, now time.Time) *api.Notice {
	ends := h.CertificateEnds
	if h.State != api.HostUp || ends.IsZero() || ends.Sub(now) > tunnel.CertificateWarning || c[h.Alias].Equal(ends) {
		return nil
	}
	c[h.Alias] = ends
	return &api.Notice{
		Kind: api.NoticeNeedsLogin, Host: h.Alias,
		Text: fmt.Sprintf("your certificate for %s expires soon: after %s, a lost connection needs you to log in again with a new certificate", h.Alias, api.ClockText(ends, now)),
	}
}
