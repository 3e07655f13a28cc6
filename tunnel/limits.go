package tunnel

import "time"

// Limits are the waits and counts that keep the load on a login node low and a person
// from being locked out. Every field must be positive.
type Limits struct {
	// SettingsTimeout bounds one run of `ssh -G`, which runs Match exec commands.
	SettingsTimeout time.Duration
	// DialTimeout bounds reaching the host's port.
	DialTimeout time.Duration
	// BannerTimeout bounds the wait for the server's first line. An open port that sends
	// nothing is a captive portal or a VPN that is down.
	BannerTimeout time.Duration
	// HandshakeTimeout bounds key exchange and login, less the time a person takes
	// to answer.
	HandshakeTimeout time.Duration
	// PromptTimeout bounds how long a person may take to answer one question.
	PromptTimeout time.Duration
	// Attended is how long after a person's action questions may be asked.
	Attended time.Duration

	// LoginSpacing is the least time between two automatic logins.
	LoginSpacing time.Duration
	// RetryMin and RetryMax bound the backoff between two tries.
	RetryMin, RetryMax time.Duration
	// StableAfter is how long a connection must have lasted for the backoff to start over
	// after its loss.
	StableAfter time.Duration
	// Refusals is how many refused logins stop all automatic tries.
	Refusals int
	// BanWait is the wait after a suspected ban.
	BanWait time.Duration

	// KeepaliveEvery is the silence after which a keepalive is sent, and KeepaliveMax how
	// many in a row may go unanswered.
	KeepaliveEvery time.Duration
	KeepaliveMax   int
	// ProbeTimeout bounds the reply to the probe after a network change.
	ProbeTimeout time.Duration
	// WakeGrace is ProbeTimeout for a connection that only a person can restore.
	WakeGrace time.Duration

	// MaxSessions is how many commands run at once over one connection. sshd's
	// own default limit is 10.
	MaxSessions int
	// SessionsAgain is how long to wait before trying one session more than the server
	// last allowed.
	SessionsAgain time.Duration
	// NodeDial bounds the dial of each name of a compute node.
	NodeDial time.Duration
	// NodeIdle is how long a leased connection to a compute node is kept after its last
	// lease.
	NodeIdle time.Duration
	// MaxOutput bounds what one command may print, in bytes. A list of 20,000 jobs has up
	// to 10 MB.
	MaxOutput int
}

// DefaultLimits are the limits for real hosts.
func DefaultLimits() Limits {
	return Limits{
		SettingsTimeout:  15 * time.Second,
		DialTimeout:      15 * time.Second,
		BannerTimeout:    10 * time.Second,
		HandshakeTimeout: 30 * time.Second,
		PromptTimeout:    2 * time.Minute,
		Attended:         2 * time.Minute,
		LoginSpacing:     time.Minute,
		RetryMin:         5 * time.Second,
		RetryMax:         15 * time.Minute,
		StableAfter:      5 * time.Minute,
		Refusals:         2,
		BanWait:          time.Hour,
		KeepaliveEvery:   30 * time.Second,
		KeepaliveMax:     3,
		ProbeTimeout:     3 * time.Second,
		WakeGrace:        45 * time.Second,
		MaxSessions:      8,
		SessionsAgain:    time.Minute,
		NodeDial:         4 * time.Second,
		NodeIdle:         time.Minute,
		MaxOutput:        32 << 20,
	}
}

// PracticeLimits are short, for a practice cluster that bans nobody. Login and probe
// keep their normal time: they start programs on a laptop that may be busy.
func PracticeLimits() Limits {
	l := DefaultLimits()
	l.DialTimeout = 3 * time.Second
	l.LoginSpacing = 200 * time.Millisecond
	l.RetryMin = 100 * time.Millisecond
	l.RetryMax = 2 * time.Second
	l.StableAfter = time.Second
	l.BanWait = 5 * time.Second
	l.KeepaliveEvery = time.Second
	l.WakeGrace = 10 * time.Second
	return l
}
