package session

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tunctl/internal/agent/events"
	"tunctl/internal/agent/forwards"
	"tunctl/internal/agent/hosts"
	"tunctl/internal/agent/ledger"
	"tunctl/internal/agent/probe"
	"tunctl/internal/agent/run"
	"tunctl/internal/agent/settings"
	"tunctl/internal/agent/state"
	"tunctl/internal/api"
	"tunctl/internal/latest"
	"tunctl/internal/usage"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
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
	// Dashboard is the address of a page to which waiting pages link; "" is none.
	Dashboard func() string
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
		Limits:    a.Limits.Limits,
		Unsettled: func() { latest.Signal(a.unsettled) }, Recover: a.Sessions.RecoverJobs, FreeName: a.Sessions.freeName,
		Remember: func(session string, with api.Choices) {
			if s, err := a.Sessions.Find(session); err == nil {
				_ = s.record(func(r *state.Session) { r.AddRecent(with) })
			}
		},
	}
}

// Reload reads the config and the sites if they have changed, and publishes the new status. What is
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
	a.Hosts.Reload()
	for _, s := range a.Sessions.Live() {
		if s.origin == fromConfig || s.origin == orphaned {
			a.Sessions.dropIfDown(s)
		}
	}
	a.Hub.Publish(api.Event{Type: api.EventStatus})
	if err != nil {
		a.Hub.Publish(api.Event{Type: api.EventNotice, Notice: &api.Notice{Kind: api.NoticeConfig, Text: "the config has errors; the last valid one stays in use: " + err.Error()}})
	}
}

// Limits bound what the agent does without being asked, and how long it waits.
type Limits struct {
	ledger.Limits
	Run    run.Limits
	Tunnel tunnel.Limits
	// Usage is how often a running job is measured while somebody looks.
	Usage time.Duration
	// Permit is how long after the user last asked for a session its job may be submitted.
	Permit time.Duration
	// Quota is how long the output of a site's quota commands is repeated without running
	// them again.
	Quota time.Duration
	// Look is how often the agent checks that its socket still exists, and whether the config has changed.
	Look time.Duration
	// Crashes is how many crashes within CrashWindow make the agent start without
	// connecting.
	Crashes     int
	CrashWindow time.Duration
	// Drain is how long requests may take to finish when the agent stops.
	Drain time.Duration
}

// DefaultLimits are gentle to login nodes and schedulers.
func DefaultLimits() Limits {
	return Limits{
		Limits: ledger.Limits{Jobs: remote.DefaultLimits(), KeepLead: 15 * time.Minute, KeepPerDay: 12, KeepRetry: time.Minute},
		Run: run.Limits{
			Probe: probe.DefaultLimits(), Silent: time.Minute, Remind: []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		},
		Tunnel: tunnel.DefaultLimits(), Drain: 5 * time.Second, Look: 5 * time.Second,
		Permit:  time.Hour,
		Quota:   time.Hour,
		Crashes: 3, CrashWindow: 10 * time.Minute,
		Usage: 10 * time.Second,
	}
}

// PracticeLimits are quick, for the practice cluster.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.Tunnel, l.Jobs = tunnel.PracticeLimits(), remote.PracticeLimits()
	l.Run.Probe.Every = 100 * time.Millisecond
	l.KeepRetry = time.Second
	l.Look = 200 * time.Millisecond
	l.Usage = 2 * time.Second
	return l
}
