package session

import (
	"context"
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
)

// Parts are what all sessions use, and the agent around them.
type Parts struct {
	Limits   Limits
	Log      *slog.Logger
	Store    *state.Store
	History  *state.History
	Hub      *events.Hub
	Usage    *usage.Hub
	Settings *settings.Settings
	Hosts    *hosts.Hosts
	Sessions *Registry
	Kept     forwards.Kept // the pages of sessions that are down
	// AttachedApp is the app of jobs that were started by hand; "": what their log says.
	AttachedApp string

	Ctx  context.Context // of the agent's life; sessions end with it
	Work sync.WaitGroup  // what goes on in it

	unsettled chan struct{} // signals Settle that there may be something to do
	reloading sync.Mutex    // one reload at a time
}

// ledgerOptions are what the jobs of a session need.
func (a *Parts) ledgerOptions() ledger.Options {
	return ledger.Options{
		Store: a.Store, History: a.History, Hosts: a.Hosts, Settings: a.Settings, Log: a.Log, Source: a.Source,
		Limits:    ledger.Limits{Jobs: a.Limits.Jobs, KeepLead: a.Limits.KeepLead, KeepPerDay: a.Limits.KeepPerDay, KeepRetry: a.Limits.KeepRetry},
		Unsettled: func() { signal(a.unsettled) }, Recover: a.Sessions.RecoverJobs, FreeName: a.Sessions.freeName,
		Remember: func(session string, with api.Choices) {
			if s, err := a.Sessions.Find(session); err == nil {
				_ = s.record(func(r *state.Session) { r.AddRecent(with) })
			}
		},
	}
}

// Reload reads the config file if it has changed, and publishes the new status. What is
// running stays as it is: a session uses its new settings at its next up, a host at its
// next dial. If the file has errors, the last valid one stays in use and one notice says
// so.
func (a *Parts) Reload() {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	changed, err := a.Settings.Reload()
	if !changed {
		return
	}
	if err != nil {
		a.Hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Text: "the config has errors; the last valid one stays in use: " + err.Error()}})
	}
	a.Hosts.Reload()
	for _, s := range a.Sessions.Live() {
		if s.origin == fromConfig || s.origin == orphaned {
			a.Sessions.dropIfDown(s)
		}
	}
	a.Hub.Publish(api.Event{Type: api.EventStatus})
}

// signal sends to a channel unless a signal is waiting there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
