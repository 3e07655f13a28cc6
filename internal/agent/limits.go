package agent

import (
	"time"

	"tunctl/jobwatch"
	"tunctl/tunnel"
)

// Limits bound what the agent does by itself, and how long it waits.
type Limits struct {
	Tunnel tunnel.Limits
	Jobs   jobwatch.Limits
	// Probe is how long one request to an endpoint may take, ProbeEvery how soon
	// it is asked again while it does not answer, ProbeSlow the same after a minute.
	Probe      time.Duration
	ProbeEvery time.Duration
	ProbeSlow  time.Duration
	// TokenGrace is how long a server that wants a token may keep it out of its log
	// before its login page will do.
	TokenGrace time.Duration
	// NodeGrace is how long the login node may fail to get through to an endpoint
	// before ways onto its compute node are tried, NodeProbe how long one request may
	// take then, the login on the node included.
	NodeGrace time.Duration
	NodeProbe time.Duration
	// Silent is how long a running job may write nothing before a person is told.
	Silent time.Duration
	// Remind are the times before a job's end at which a person is told, the longest
	// first.
	Remind []time.Duration
	// KeepLead is how long before a job's end keep = true submits the next at the
	// latest, KeepPerDay how many it submits in a day, KeepRetry how soon it tries
	// again after the link was lost over it.
	KeepLead   time.Duration
	KeepPerDay int
	KeepRetry  time.Duration
	// Permit is how long after a person's last act on a session its job may be submitted.
	Permit time.Duration
	// Socket is how often the agent looks whether its socket is still there.
	Socket time.Duration
	// Drain is how long requests may take to finish when the agent ends.
	Drain time.Duration
}

// DefaultLimits are those of a good guest.
func DefaultLimits() Limits {
	return Limits{
		Tunnel: tunnel.DefaultLimits(), Jobs: jobwatch.DefaultLimits(),
		Probe: 10 * time.Second, ProbeEvery: time.Second, ProbeSlow: 10 * time.Second,
		TokenGrace: 15 * time.Second, Drain: 5 * time.Second, Socket: 5 * time.Second,
		NodeGrace: 5 * time.Second, NodeProbe: 45 * time.Second,
		Remind:   []time.Duration{30 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		Permit:   time.Hour,
		Silent:   time.Minute,
		KeepLead: 15 * time.Minute, KeepPerDay: 12, KeepRetry: time.Minute,
	}
}

// PracticeLimits are quick, for a cluster of one's own.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.Tunnel, l.Jobs = tunnel.PracticeLimits(), jobwatch.PracticeLimits()
	l.ProbeEvery = 100 * time.Millisecond
	l.KeepRetry = time.Second
	l.Socket = 200 * time.Millisecond
	return l
}
