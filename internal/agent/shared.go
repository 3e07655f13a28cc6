package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"tunctl/internal/agent/events"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/usage"
	"tunctl/tunnel"
)

// shared is what all parts of the agent use: its sessions, its server and its life.
type shared struct {
	limits   Limits
	log      *slog.Logger
	store    *state.Store
	history  *state.History
	hub      *events.Hub
	usage    *usage.Hub
	settings *settings.Settings
	hosts    *hosts.Hosts
	pool     *tunnel.Pool // of hosts
	sessions *registry
	kept     forwards.Kept // the pages of sessions that are down

	ctx       context.Context // of Serve; sessions end with it
	work      sync.WaitGroup
	unsettled chan struct{} // signals settle that there may be something to do
	reloading sync.Mutex    // one reload at a time
}

// ledgerOptions are what the jobs of a session need.
func (a *shared) ledgerOptions() ledger.Options {
	return ledger.Options{
		Store: a.store, History: a.history, Hosts: a.hosts, Settings: a.settings, Log: a.log, Source: a.source,
		Limits:    ledger.Limits{Jobs: a.limits.Jobs, KeepLead: a.limits.KeepLead, KeepPerDay: a.limits.KeepPerDay, KeepRetry: a.limits.KeepRetry},
		Unsettled: func() { signal(a.unsettled) }, Recover: a.sessions.recoverJobs, FreeName: a.sessions.freeName,
		Remember: func(session string, with api.Choices) {
			if s, err := a.sessions.find(session); err == nil {
				_ = s.record(func(r *state.Session) { r.AddRecent(with) })
			}
		},
	}
}

func (a *shared) report(part string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.log.Error("a part of the agent stopped", "part", part, "err", err)
	}
}

// reload reads the config file if it has changed, and publishes the new status. What is
// running stays as it is: a session uses its new settings at its next up, a host at its
// next dial. If the file has errors, the last valid one stays in use and one notice says
// so.
func (a *shared) reload() {
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
	for _, s := range a.sessions.live() {
		if s.origin == fromConfig || s.origin == orphaned {
			a.sessions.dropIfDown(s)
		}
	}
	a.hub.Publish(api.Event{Type: api.EventStatus})
}

// signal sends to a channel unless a signal is waiting there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
