package session

import (
	"time"

	"tunctl/internal/agent/probe"
	"tunctl/jobwatch/remote"
	"tunctl/tunnel"
)

// Limits bound what the agent does without being asked, and how long it waits.
type Limits struct {
	Tunnel tunnel.Limits
	Jobs   remote.Limits
	Probe  probe.Limits
	// Usage is how often a running job is measured while somebody looks.
	Usage time.Duration
	// Silent is how long a running job may write nothing before the session says so.
	Silent time.Duration
	// Remind are the times before a job's end at which the user is reminded, the longest
	// first.
	Remind []time.Duration
	// KeepLead is how long before a job's end keep = true submits the next at the
	// latest, KeepPerDay how many it submits in a day, KeepRetry how soon it tries
	// again after a lost connection.
	KeepLead   time.Duration
	KeepPerDay int
	KeepRetry  time.Duration
	// Permit is how long after the user last asked for a session its job may be submitted.
	Permit time.Duration
	// Quota is how long the output of a site's quota commands is repeated without running
	// them again.
	Quota time.Duration
	// Socket is how often the agent checks that its socket still exists.
	Socket time.Duration
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
		Tunnel: tunnel.DefaultLimits(), Jobs: remote.DefaultLimits(),
		Probe: probe.DefaultLimits(), Drain: 5 * time.Second, Socket: 5 * time.Second,
		Remind:  []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		Permit:  time.Hour,
		Quota:   time.Hour,
		Crashes: 3, CrashWindow: 10 * time.Minute,
		Silent:   time.Minute,
		Usage:    10 * time.Second,
		KeepLead: 15 * time.Minute, KeepPerDay: 12, KeepRetry: time.Minute,
	}
}

// PracticeLimits are quick, for the practice cluster.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.Tunnel, l.Jobs = tunnel.PracticeLimits(), remote.PracticeLimits()
	l.Probe.Every = 100 * time.Millisecond
	l.KeepRetry = time.Second
	l.Socket = 200 * time.Millisecond
	l.Usage = 2 * time.Second
	return l
}
