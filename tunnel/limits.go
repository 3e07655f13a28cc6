package tunnel

import (
	"time"

	"tunctl/tunnel/retry"
	"tunctl/tunnel/sshconfig"
)

// Limits are the waits and counts that keep the load on a login node low and the user
// from being locked out. Every field but SitePause must be positive.
//
// What may take how long depends on who is waited for. A network that was gone is given
// all the time that TCP has: what does not respond is told soon and given up late. A host
// is given what a busy one takes, and spared. The user is given minutes.
type Limits struct {
	// Limits are those of the rules by which a host is tried again and logged in to.
	retry.Limits

	// For the network: reaching a host, and what becomes of a connection to it.

	// DialTimeout bounds reaching the host's port.
	DialTimeout time.Duration
	// BannerTimeout bounds the wait for the server's first line. An open port that sends
	// nothing is a captive portal or a VPN that is down.
	BannerTimeout time.Duration
	// WaitedBanner is BannerTimeout while the user waits: the connection is used as soon as
	// the server responds.
	WaitedBanner time.Duration
	// KeepaliveEvery is the silence after which a keepalive is sent, and KeepaliveMax how
	// many in a row may go unanswered before the connection is set aside.
	KeepaliveEvery time.Duration
	KeepaliveMax   int
	// ProbeTimeout bounds the reply to the probe after a network change, before the
	// connection is set aside and a new login begins.
	ProbeTimeout time.Duration
	// Unacknowledged is how long the host's system may send nothing that was due before the
	// host is shown as not responding. A stall of three seconds costs TCP up to seven.
	Unacknowledged time.Duration
	// LossyUnanswered replaces it, and Unanswered, on a link that loses many packets.
	LossyUnanswered time.Duration
	// ReplaceUnanswered is how much later the connection is set aside and a new login begins,
	// if that needs nobody.
	ReplaceUnanswered time.Duration
	// KeepReplaced is how long a connection that was replaced may stay silent while channels
	// are open on it. TCP waits up to two minutes before it sends the same bytes again.
	KeepReplaced time.Duration

	// For the host: how long it may take, and what it is spared.

	// HandshakeTimeout bounds key exchange and login, less the time the user takes
	// to answer.
	HandshakeTimeout time.Duration
	// ProbeAfter is how long a client's bytes may stay unanswered before a keepalive is
	// sent, and InUse how long after the client's last bytes that is done.
	ProbeAfter time.Duration
	InUse      time.Duration
	// Unanswered is how long its SSH server may send nothing that was due before the host is
	// shown as not responding.
	Unanswered time.Duration
	// MaxSessions is how many commands run at once over one connection. sshd's
	// own default limit is 10.
	MaxSessions int
	// SessionsAgain is how long to wait before trying one session more than the server
	// last allowed.
	SessionsAgain time.Duration
	// NodeDial bounds the dial of each name of a compute node.
	NodeDial time.Duration
	// NodeIdle is how long a connection to a compute node is kept after its last stream.
	NodeIdle time.Duration
	// StepStart is how long a job step may take to start before another way is tried.
	StepStart time.Duration
	// StepIdle is how long a job step is kept after its last channel.
	StepIdle time.Duration

	// For the user, and this computer.

	// PromptTimeout bounds how long the user may take to answer one question.
	PromptTimeout time.Duration
	// WakeGrace is ProbeTimeout for a connection that only the user can restore, before they
	// are asked to log in, unless they want the host just then.
	WakeGrace time.Duration
	// SettingsTimeout bounds one run of `ssh -G`, which runs Match exec commands.
	SettingsTimeout time.Duration
}

// DefaultLimits are the limits for real hosts.
func DefaultLimits() Limits {
	return Limits{
		Limits: retry.Limits{
			RetryMin:     5 * time.Second,
			RetryMax:     15 * time.Minute,
			LoginSpacing: time.Minute,
			StableAfter:  5 * time.Minute,
			Refusals:     2,
			BanWait:      time.Hour,
			WatchedMin:   10 * time.Second,
			WatchedMax:   time.Minute,
			WatchedFor:   30 * time.Minute,
		},
		SettingsTimeout:   15 * time.Second,
		DialTimeout:       15 * time.Second,
		BannerTimeout:     10 * time.Second,
		HandshakeTimeout:  30 * time.Second,
		PromptTimeout:     2 * time.Minute,
		KeepaliveEvery:    30 * time.Second,
		KeepaliveMax:      3,
		ProbeTimeout:      3 * time.Second,
		WakeGrace:         45 * time.Second,
		ProbeAfter:        2 * time.Second,
		InUse:             30 * time.Second,
		Unacknowledged:    7 * time.Second,
		Unanswered:        12 * time.Second,
		LossyUnanswered:   30 * time.Second,
		ReplaceUnanswered: 8 * time.Second,
		KeepReplaced:      2 * time.Minute,
		WaitedBanner:      5 * time.Minute,
		MaxSessions:       8,
		SessionsAgain:     time.Minute,
		NodeDial:          4 * time.Second,
		NodeIdle:          time.Minute,
		StepStart:         5 * time.Second,
		StepIdle:          5 * time.Minute,
	}
}

// within returns the limits for a host: those of its site where they are stricter, and the user's
// own keepalive.
func (l Limits) within(s *sshconfig.Settings) Limits {
	if s.MaxSessions > 0 {
		l.MaxSessions = min(l.MaxSessions, s.MaxSessions)
	}
	if s.Refusals > 0 {
		l.Refusals = min(l.Refusals, s.Refusals)
	}
	if s.ServerAliveInterval > 0 {
		l.KeepaliveEvery = s.ServerAliveInterval
		l.KeepaliveMax = max(s.ServerAliveCountMax, 1)
		l.KeepReplaced = l.KeepaliveEvery * time.Duration(l.KeepaliveMax)
	}
	l.LoginSpacing = max(l.LoginSpacing, s.LoginSpacing)
	l.SitePause = s.RetryMin
	l.RetryMin = max(l.RetryMin, s.RetryMin)
	l.RetryMax = max(l.RetryMax, l.RetryMin)
	return l
}

// PracticeLimits are short, for a practice cluster that bans nobody. Login keeps its normal
// time, and replies have long: programs start on a laptop that may be busy.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.DialTimeout = 3 * time.Second
	l.LoginSpacing = 200 * time.Millisecond
	l.RetryMin = 100 * time.Millisecond
	l.RetryMax = 2 * time.Second
	l.StableAfter = time.Second
	l.BanWait = 5 * time.Second
	l.KeepaliveEvery = time.Second
	l.KeepaliveMax = 10 // more than Unanswered, as on real hosts
	l.WakeGrace = 10 * time.Second
	l.ProbeAfter = 500 * time.Millisecond
	l.ProbeTimeout, l.ReplaceUnanswered = 8*time.Second, 3*time.Second
	l.Unacknowledged, l.Unanswered, l.LossyUnanswered = 8*time.Second, 8*time.Second, 8*time.Second
	l.WatchedMin, l.WatchedMax = 200*time.Millisecond, time.Second
	l.StepStart = 20 * time.Second // as above: a program starts
	return l
}
